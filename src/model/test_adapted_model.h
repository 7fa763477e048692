// For tests of adapters: a model that is asked for its places alone, and a backend that keeps what it is given.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/adapter_ends.h"
#include "model/adapter_experts.h"
#include "model/model.h"
#include "ops/no_ops.h"

namespace quire {

inline constexpr int64_t kRoom = int64_t{1} << 20;

// A llama of 2 layers, 2 heads of 4, one of keys and values, and 5 tokens: what it is asked for, no more.
class SmallModel final : public Model {
 public:
  explicit SmallModel(const std::string& arch = "llama", int n_experts = 0) {
    info_.arch = arch;
    info_.n_vocab = 5;
    info_.n_layers = 2;
    info_.n_heads = 2;
    info_.n_kv_heads = 1;
    info_.head_dim = 4;
    info_.n_rope = 4;
    for (int l = 0; l < 2; ++l) {
      const auto add = [&](const std::string& name, int64_t n_out, int64_t n_in, auto product, size_t index,
                           int64_t first_row = 0) {
        const std::string tensor = "blk." + std::to_string(l) + "." + name + ".weight";
        sites_.push_back({tensor, first_row, n_out, n_in, l, product, index});
      };
      const bool fused = arch == "phi3";
      if (fused) add("attn_qkv", 16, 8, &AdapterLayer::qkv, 0);
      if (!fused) add("attn_q", 8, 8, &AdapterLayer::qkv, 0);
      if (!fused) add("attn_k", 4, 8, &AdapterLayer::qkv, 1);
      if (!fused) add("attn_v", 4, 8, &AdapterLayer::qkv, 2);
      add("attn_output", 8, 8, &AdapterLayer::attn_out, 0);
      add(fused ? "ffn_up" : "ffn_gate", 6, 8, &AdapterLayer::gate_up, 0);
      add("ffn_up", 6, 8, &AdapterLayer::gate_up, 1, fused ? 6 : 0);
      add("ffn_down", 8, 6, &AdapterLayer::down, 0);
    }
    sites_.push_back({"token_embd.weight", 0, 8, 5, 2, kEmbedding, 0});
    sites_.push_back({"output.weight", 0, 5, 8, 2, kHead, 0});
    for (int l = 0; l < 2 && n_experts > 0; ++l) {
      const std::string tensor = "blk." + std::to_string(l) + ".ffn_down_shexp.weight";
      sites_.push_back({tensor, 0, 8, 6, shared_unit_entry(2, l), &AdapterLayer::down, 0});
    }
    for (int i = 0; i < 2 * n_experts; ++i) {  // of both layers, beside units
      const std::string front = "blk." + std::to_string(i / n_experts) + ".ffn_";
      const std::string end = "." + std::to_string(i % n_experts) + ".weight";
      const int entry = first_expert_entry(2, n_experts, i / n_experts) + i % n_experts;
      sites_.push_back({front + "gate" + end, 0, 3, 8, entry, &AdapterLayer::gate_up, 0});
      sites_.push_back({front + "up" + end, 0, 3, 8, entry, &AdapterLayer::gate_up, 1});
      sites_.push_back({front + "down" + end, 0, 8, 3, entry, &AdapterLayer::down, 0});
    }
  }
  ModelInfo& facts() { return info_; }
  std::span<const AdapterSite> adapter_sites() const override { return sites_; }
  int64_t arena_bytes(int64_t, int64_t) const override { return 0; }
  Tensor embed(const Pass&) const override { return {}; }
  Tensor layers(Tensor x, LayerRange, const Pass&) const override { return x; }
  Tensor head(Tensor x, const Pass&) const override { return x; }

 private:
  std::vector<AdapterSite> sites_;
};

// Keeps what it is given, transposes nothing.
class KeepingOps final : public NoOps {
 public:
  std::string describe() const override { return "keeping"; }
  Result<Buffer> allocate(int64_t bytes) override { return Buffer::allocate(bytes); }
  void sample(std::span<Sampled>, Tensor, std::span<const SampleParams>) override {}
  Result<Buffer> load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to) override {
    given.clear();
    for (size_t i = 0; i < from.size(); ++i) {
      given.push_back({{from[i].a.begin(), from[i].a.end()}, {from[i].b.begin(), from[i].b.end()}, from[i].rank});
      to[i].n_out = from[i].n_out;
      to[i].a.n_out = from[i].rank;
    }
    return Buffer::allocate(64);
  }
  struct Given {
    std::vector<float> a, b;
    int64_t rank;
  };
  std::vector<Given> given;  // by the model's sites
};

inline std::vector<float> counted(int64_t n, float first = 1) {
  std::vector<float> out;
  out.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out.push_back(first + static_cast<float>(i));
  return out;
}

}  // namespace quire
