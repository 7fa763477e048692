// What Gemma 3n and Gemma 4 share: layers that know a token by an embedding of their own, values that are normed, last
// layers that read the keys of those before them, scores without a factor.
#pragma once
#include <cmath>

#include "model/decoder.h"

namespace quire {

inline constexpr double kGemmaLocalTheta = 10000.0;  // where the file does not say

inline Status configure_gemma(
    const ModelFile& file, const std::string& prefix, int period, double cap, DecoderConfig& c) {
  const Metadata& meta = file.meta;
  c.activation = Activation::gelu_tanh;
  c.embed_scale = std::sqrt(static_cast<float>(c.n_embd));
  c.attn_scale = 1.0F;
  c.plain_value_norms = true;
  QR_TRY(const double logits, meta.get_double_or(prefix + "final_logit_softcapping", 0.0, 1e6, cap));
  c.logit_soft_cap = static_cast<float>(logits);
  QR_TRY(const int64_t n_readers, meta.get_int_or(prefix + "attention.shared_kv_layers", 0, c.n_layers - 1, 0));
  c.n_readers = static_cast<int>(n_readers);
  QR_TRY(const int64_t n_own, meta.get_int_or(prefix + "embedding_length_per_layer_input", 0, 1 << 16, 0));
  c.n_layer_embd = static_cast<int>(n_own);
  QR_TRY(const double theta, meta.get_double_or(prefix + "rope.freq_base_swa", 1.0, 1e12, kGemmaLocalTheta));
  c.rope_local = plain_rope(c.local.n_kv > 0 ? c.local.n_rope : c.n_rope, theta);
  return read_windows(file, period, c);
}

inline void load_own_part(WeightLoader& load, DecoderLayer& layer, const DecoderConfig& c) {
  if (c.n_layer_embd == 0) return;
  load.linear(layer.own_gate, "inp_gate", c.n_layer_embd, c.n_embd);
  load.linear(layer.own_proj, "proj", c.n_embd, c.n_layer_embd);
  load.vector(layer.own_norm, "post_norm.weight", c.n_embd);
}

inline Status gemma_own_facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_activation", {"gelu_pytorch_tanh"}));
  QR_TRY_VOID(hf.require("rope_parameters.sliding_attention.rope_type", {"default"}));
  hf.copy({"final_logit_softcapping"}, "final_logit_softcapping");
  hf.copy({"num_kv_shared_layers"}, "attention.shared_kv_layers");
  hf.copy({"hidden_size_per_layer_input"}, "embedding_length_per_layer_input");
  hf.copy({"rope_parameters.sliding_attention.rope_theta"}, "rope.freq_base_swa");
  return {};
}

inline std::vector<NameRule> gemma_own_names() {
  return {{"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
          {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
          {"model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
          {"model.layers.{}.pre_feedforward_layernorm.weight", "blk.{}.ffn_norm.weight"},
          {"model.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
          {"model.layers.{}.per_layer_input_gate.weight", "blk.{}.inp_gate.weight"},
          {"model.layers.{}.per_layer_projection.weight", "blk.{}.proj.weight"},
          {"model.layers.{}.post_per_layer_input_norm.weight", "blk.{}.post_norm.weight"},
          {"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
          {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight"},
          {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight"}};
}

}  // namespace quire
