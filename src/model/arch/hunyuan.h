// What Hunyuan's first models share, dense or with experts: Llama's shape with a norm over each head of q and k behind
// their rotation.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "model/decoder.h"

namespace quire {

class Hunyuan : public NormedHeads {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.turns_first = true;
    return {};
  }
};

// Their "dynamic" scaling with an "alpha" is another base, whatever the context.
inline Status hunyuan_facts(HfFacts& hf) {
  for (const std::string prefix : {"rope_parameters.", "rope_scaling."}) {
    if (hf.find(prefix + "alpha") == nullptr) continue;
    QR_TRY(const double alpha, hf.get_double(prefix + "alpha", 0.0, 1e9));
    if (alpha == 0.0) continue;
    const bool is_newer = hf.find("rope_parameters.rope_theta") != nullptr;
    QR_TRY(const double theta,
           hf.get_double_or(is_newer ? "rope_parameters.rope_theta" : "rope_theta", 1.0, 1e12, 10000.0));
    QR_TRY(const int64_t n_heads, hf.get_int("num_attention_heads", 1, 4096));
    QR_TRY(const int64_t n_embd, hf.get_int("hidden_size", 1, 1 << 20));
    QR_TRY(const int64_t dim, hf.get_int_or("head_dim", 4, 1 << 16, std::max<int64_t>(4, n_embd / n_heads)));
    hf.set("rope.freq_base", theta * std::pow(alpha, static_cast<double>(dim) / static_cast<double>(dim - 2)),
           prefix + "alpha");
    hf.set("rope.scaling.type", std::string("none"), prefix + "alpha");
    break;
  }
  return hf.require("hidden_act", {"silu"});
}

inline std::vector<NameRule> hunyuan_tensors(std::vector<NameRule> own) {
  own.push_back({"model.layers.{}.self_attn.query_layernorm.weight", "blk.{}.attn_q_norm.weight"});
  own.push_back({"model.layers.{}.self_attn.key_layernorm.weight", "blk.{}.attn_k_norm.weight"});
  return own;
}

}  // namespace quire
