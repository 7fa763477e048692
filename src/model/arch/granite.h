// What Granite's models share, dense or with experts: Llama's shape with four factors, of the embedding, of scores, of
// what a part adds and of logits.
#pragma once
#include <string_view>
#include <vector>

#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {

class Granite : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    const auto factor = [&](const char* name) { return file.meta.get_double_or(prefix + name, 1e-6, 1e6, 1.0); };
    QR_TRY(const double embedding, factor("embedding_scale"));
    QR_TRY(const double residual, factor("residual_scale"));
    QR_TRY(const double logits, factor("logit_scale"));
    c.embed_scale = static_cast<float>(embedding);
    c.residual_scale = static_cast<float>(residual);
    c.logit_scale = static_cast<float>(1.0 / logits);
    return read_pairs(file, prefix, c);
  }
};

inline Status granite_facts(HfFacts& hf) {
  hf.copy({"attention_multiplier"}, "attention.scale");
  hf.copy({"embedding_multiplier"}, "embedding_scale");
  hf.copy({"residual_multiplier"}, "residual_scale");
  hf.copy({"logits_scaling"}, "logit_scale");
  return hf.require("hidden_act", {"silu"});
}

// An architecture's own rules and those of experts.
inline std::vector<NameRule> granite_tensors(std::vector<NameRule> own) {
  constexpr std::string_view kGatesAndUps = "model.layers.{}.block_sparse_moe.input_linear.weight";
  own.push_back({"model.layers.{}.block_sparse_moe.router.layer.weight", "blk.{}.ffn_gate_inp.weight"});
  own.push_back({.theirs = kGatesAndUps, .ours = "blk.{}.ffn_gate_exps.weight", .reshape = first_rows});
  own.push_back({.theirs = kGatesAndUps, .ours = "blk.{}.ffn_up_exps.weight", .reshape = last_rows});
  own.push_back({"model.layers.{}.block_sparse_moe.output_linear.weight", "blk.{}.ffn_down_exps.weight"});
  // As transformers has them in memory, which adapters name.
  constexpr std::string_view kBoth = "model.layers.{}.block_sparse_moe.experts.gate_up_proj";
  own.push_back({"model.layers.{}.block_sparse_moe.router.weight", "blk.{}.ffn_gate_inp.weight"});
  own.push_back({.theirs = kBoth, .ours = "blk.{}.ffn_gate_exps.weight", .reshape = first_rows});
  own.push_back({.theirs = kBoth, .ours = "blk.{}.ffn_up_exps.weight", .reshape = last_rows});
  own.push_back({"model.layers.{}.block_sparse_moe.experts.down_proj", "blk.{}.ffn_down_exps.weight"});
  return own;
}

}  // namespace quire
