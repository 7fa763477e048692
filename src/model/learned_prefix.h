// A learned beginning, as PEFT saves it: for each of a few virtual tokens either the keys and values of every layer
// (prefix tuning, which is P-tuning v2), or an embedding (prompt tuning, P-tuning). Where peft hands a model past keys
// and values these are the ones; text goes on at the position behind them. Immutable after load; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"

namespace quire {

inline constexpr int kMaxVirtualTokens = 1 << 16;

struct LearnedPrefix {
  enum class Kind : uint8_t { keys_values, embeddings } kind = Kind::keys_values;
  int n_tokens = 0;
  uint64_t content = 0;  // of all below; equal in every process. Never 0
  // [n_tokens][layer][k | v][n_kv_heads · head_dim], keys in the order of the model's own, or [n_tokens][n_embd].
  std::vector<float> values;
};

// Reads `folder`: adapter_config.json and adapter_model.safetensors. It must be made for a model of this shape. Errors
// begin with the folder and name file, key or tensor, what is wanted and what was found: Code::corrupt, or
// Code::unsupported for what is another kind of adapter, an unknown key, tensor or dtype.
Result<LearnedPrefix> load_learned_prefix(const std::string& folder, const ModelInfo& info);

// Puts keys and values of the virtual tokens from `begin` on, as many as the batch has rows, where its slots say.
// REQUIRES a model of that shape and arena for a pass over as many rows.
void write_learned_prefix(const LearnedPrefix& prefix, const Model& model, const Pass& pass, int begin);

}  // namespace quire
