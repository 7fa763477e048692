// An EAGLE-3 head for a model of tests, of numbers from a seed. Test code only.
#pragma once
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "model/eagle.h"
#include "ops/op_check.h"
#include "quant/kv_codec.h"

namespace quire {

// Reads behind the first layer and the last, and knows every other token.
class TinyEagle {
 public:
  TinyEagle(const ModelInfo& info, Ops& ops) : ops_(ops), n_(info.n_embd) {
    head.taps = info.n_layers == 1 ? std::vector{1} : std::vector{1, info.n_layers};
    head.n_embd = info.n_embd;
    head.n_ff = 2 * info.n_embd;
    head.norm_eps = 1e-5F;
    for (Token id = 0; id < info.n_vocab; id += 2) head.tokens.push_back(id);
    const KvCodec* codec = find_kv_codec("f16");
    head.attn = {.k_codec = codec, .v_codec = codec, .n_heads = 4, .n_kv_heads = 2, .k_dim = 16, .v_dim = 16};
    head.attn.scale = 0.25F;
    const HeadBytes bytes = head_bytes(head.attn);
    head.kv_layout.claim(KvGroup{}, 2 * (bytes.k + bytes.v));
    head.rope = plain_rope(16, 10000.0);
    head.fc = {matrix(n_, std::ssize(head.taps) * n_)};
    head.qkv = {matrix(64, 2 * n_), matrix(32, 2 * n_), matrix(32, 2 * n_)};
    head.attn_out = {matrix(n_, 64)};
    head.gate_up = {matrix(head.n_ff, n_), matrix(head.n_ff, n_)};
    head.down = {matrix(n_, head.n_ff)};
    head.out = {matrix(head.n_draft(), n_)};
    head.token_norm = head.state_norm = head.ffn_norm = head.out_norm = ones();
  }
  EagleHead head;

 private:
  static HostWeight weight(const std::vector<float>& numbers, std::vector<int64_t> shape) {
    return {"weight", find_weight_format(std::string_view("f32")), std::move(shape), std::as_bytes(std::span(numbers))};
  }
  Linear matrix(int64_t n_out, int64_t n_in) {
    std::vector<float> numbers(static_cast<size_t>(n_out * n_in));
    const float spread = 1.0F / std::sqrt(static_cast<float>(n_in));
    for (float& v : numbers) v = spread * rng_.normal();
    auto linear = ops_.load_linear(weight(numbers, {n_out, n_in}), nullptr, Shard{});
    QR_CHECK(linear);
    return *linear;
  }
  Tensor ones() {
    const std::vector<float> numbers(static_cast<size_t>(n_), 1.0F);
    auto vector = ops_.load_vector(weight(numbers, {n_}));
    QR_CHECK(vector);
    return *vector;
  }

  Ops& ops_;
  const int64_t n_;
  Rng rng_{13};
};

}  // namespace quire
