// Virtual tokens that no training made. Test code only.
#pragma once
#include <memory>

#include "base/rng.h"
#include "engine/virtual_tokens.h"
#include "model/learned_prefix.h"

namespace quire {

// n virtual tokens with keys and values, or for an even seed embeddings, from a seed.
inline VirtualTokens random_prefix(const Model& model, uint64_t seed, int n) {
  const ModelInfo& info = model.info();
  auto prefix = std::make_shared<LearnedPrefix>();
  prefix->kind = seed % 2 == 0 ? LearnedPrefix::Kind::embeddings : LearnedPrefix::Kind::keys_values;
  const int row = seed % 2 == 0 ? info.n_embd : 2 * info.n_layers * info.n_kv_heads * info.head_dim;
  prefix->n_tokens = n;
  Rng rng(seed);
  for (int i = 0; i < n * row; ++i) prefix->values.push_back(static_cast<float>(rng.between(-1000, 1000)) / 700.0F);
  return {seed, n,
          [prefix, &model](const Pass& pass, int begin) { write_learned_prefix(*prefix, model, pass, begin); }};
}

}  // namespace quire
