// Medusa heads for a model of tests, of numbers from a seed. Test code only.
#pragma once
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "model/medusa.h"

namespace quire {

// `out`: the matrix over the vocabulary of all heads, random ones where it is null. The first head's blocks are zeros:
// with the model's own matrix it guesses the due token again, which is right where a text repeats itself.
inline MedusaHeads tiny_heads(
    const ModelInfo& info, const HostWeight* out, Ops& ops, int n_heads = 4, int n_blocks = 2) {
  Rng rng(11);
  const auto load = [&](int64_t n_out, float spread, bool has_bias) {
    const int64_t n_in = info.n_embd;
    std::vector<float> w(static_cast<size_t>(n_out * n_in)), b(static_cast<size_t>(n_out));
    for (float& v : w) v = spread * rng.normal();
    for (float& v : b) v = spread * rng.normal();
    const WeightFormat* f32 = find_weight_format(std::string_view("f32"));
    const HostWeight weight{"weight", f32, {n_out, n_in}, std::as_bytes(std::span(w))};
    const HostWeight bias{"bias", f32, {n_out}, std::as_bytes(std::span(b))};
    auto linear = ops.load_linear(weight, has_bias ? &bias : nullptr, Shard{});
    QR_CHECK(linear);
    return *linear;
  };
  const float spread = 0.5F / std::sqrt(static_cast<float>(info.n_embd));
  MedusaHeads heads;
  heads.blocks.resize(static_cast<size_t>(n_blocks));
  for (int k = 0; k < n_heads; ++k) {
    for (auto& block : heads.blocks) block.push_back(load(info.n_embd, k == 0 ? 0.0F : spread, true));
    heads.out.push_back(out != nullptr ? *ops.load_linear(*out, nullptr, Shard{}) : load(info.n_vocab, spread, false));
  }
  return heads;
}

}  // namespace quire
