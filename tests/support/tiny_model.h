// A small random llama in memory, of any weight format: what tests run that need real kernels but no trained weights.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "io/model_file.h"
#include "model/model.h"
#include "quant/kv_codec.h"
#include "quant/weight_format.h"

namespace quire {

struct TinyShape {
  int n_layers = 2, n_embd = 64, n_ff = 96, n_heads = 4, n_kv_heads = 2, n_vocab = 105, n_ctx = 2048;
  int n_experts = 0, n_experts_used = 0;  // 0: every layer is dense
  int window = 0, window_period = 1;      // keys that layers see, all but the last of window_period; 0: every key
};

// Owns the bytes that its ModelFile points into.
class TinyModel {
 public:
  TinyModel(const TinyShape& shape, std::string_view format, uint64_t seed) : rng_(seed) {
    file_.path = "tiny";
    auto& meta = file_.meta.values;
    meta["general.architecture"] = std::string("llama");
    meta["general.name"] = std::string("tiny random");
    meta["llama.block_count"] = int64_t{shape.n_layers};
    meta["llama.embedding_length"] = int64_t{shape.n_embd};
    meta["llama.feed_forward_length"] = int64_t{shape.n_ff};
    meta["llama.context_length"] = int64_t{shape.n_ctx};
    meta["llama.attention.head_count"] = int64_t{shape.n_heads};
    meta["llama.attention.head_count_kv"] = int64_t{shape.n_kv_heads};
    if (shape.n_experts > 0) {
      meta["llama.expert_count"] = int64_t{shape.n_experts};
      meta["llama.expert_used_count"] = int64_t{shape.n_experts_used};
    }
    if (shape.window > 0) {
      meta["llama.attention.sliding_window"] = int64_t{shape.window};
      meta["llama.attention.sliding_window_pattern"] = int64_t{shape.window_period};
    }
    const int64_t head_dim = shape.n_embd / shape.n_heads;
    const int64_t kv_dim = shape.n_kv_heads * head_dim;
    add("token_embd.weight", format, {shape.n_vocab, shape.n_embd}, 1.0F);
    add("output.weight", format, {shape.n_vocab, shape.n_embd}, 3.0F / std::sqrt(static_cast<float>(shape.n_embd)));
    add("output_norm.weight", "f32", {shape.n_embd}, 0.0F);
    for (int l = 0; l < shape.n_layers; ++l) {
      const std::string p = "blk." + std::to_string(l) + ".";
      const float in = 1.0F / std::sqrt(static_cast<float>(shape.n_embd));
      add(p + "attn_norm.weight", "f32", {shape.n_embd}, 0.0F);
      add(p + "ffn_norm.weight", "f32", {shape.n_embd}, 0.0F);
      add(p + "attn_q.weight", format, {shape.n_embd, shape.n_embd}, 2 * in);
      add(p + "attn_k.weight", format, {kv_dim, shape.n_embd}, 2 * in);
      add(p + "attn_v.weight", format, {kv_dim, shape.n_embd}, in);
      add(p + "attn_output.weight", format, {shape.n_embd, shape.n_embd}, in);
      add_feed_forward(p, shape, format);
    }
    std::sort(file_.tensors.begin(), file_.tensors.end(),
              [](const HostWeight& a, const HostWeight& b) { return a.name < b.name; });
  }

  // The same numbers as f32.
  void decode_weights() {
    for (HostWeight& w : file_.tensors) {
      const int64_t n = w.n_rows() * w.n_cols();
      std::vector<std::byte>& bytes = bytes_.emplace_back(static_cast<size_t>(n) * sizeof(float));
      std::vector<float> values(static_cast<size_t>(w.format->block));
      for (int64_t i = 0; i < n; i += w.format->block) {
        w.format->decode(w.data.data() + i / w.format->block * w.format->bytes, values.data());
        std::memcpy(bytes.data() + i * 4, values.data(), values.size() * sizeof(float));
      }
      w.format = find_weight_format("f32");
      w.data = bytes;
    }
  }

  const ModelFile& file() const { return file_; }
  Result<std::unique_ptr<Model>> load(Ops& ops, std::string_view kv_codec = "f16", int n_ctx = 0) const {
    LoadOptions options;
    options.k_codec = options.v_codec = find_kv_codec(kv_codec);
    options.n_ctx = n_ctx;
    return load_model(file_, ops, options);
  }

 private:
  void add_feed_forward(const std::string& p, const TinyShape& shape, std::string_view format) {
    const float in = 1.0F / std::sqrt(static_cast<float>(shape.n_embd));
    const float back = 1.0F / std::sqrt(static_cast<float>(shape.n_ff));
    const std::string kind = shape.n_experts > 0 ? "_exps.weight" : ".weight";
    const auto each = [&](int64_t n_out, int64_t n_in) {
      std::vector<int64_t> out{n_out, n_in};
      if (shape.n_experts > 0) out.insert(out.begin(), shape.n_experts);
      return out;
    };
    if (shape.n_experts > 0) add(p + "ffn_gate_inp.weight", "f32", {shape.n_experts, shape.n_embd}, 4 * in);
    add(p + "ffn_gate" + kind, format, each(shape.n_ff, shape.n_embd), in);
    add(p + "ffn_up" + kind, format, each(shape.n_ff, shape.n_embd), in);
    add(p + "ffn_down" + kind, format, each(shape.n_embd, shape.n_ff), back);
  }

  // spread 0: a norm's weights, near 1.
  void add(std::string name, std::string_view format_name, std::vector<int64_t> shape, float spread) {
    const WeightFormat& format = *find_weight_format(format_name);
    HostWeight w{std::move(name), &format, std::move(shape), {}};
    const int64_t n = w.n_rows() * w.n_cols();
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) v = spread > 0 ? rng_.normal() * spread : 1.0F + 0.1F * rng_.normal();
    std::vector<std::byte>& bytes = bytes_.emplace_back(static_cast<size_t>(format.row_bytes(n)));
    for (int64_t i = 0; i < n; i += format.block) {
      format.encode(values.data() + i, bytes.data() + i / format.block * format.bytes);
    }
    w.data = bytes;
    file_.tensors.push_back(std::move(w));
  }

  Rng rng_;
  ModelFile file_;
  std::list<std::vector<std::byte>> bytes_;
};

}  // namespace quire
