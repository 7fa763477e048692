// OLMo Hybrid: a gated delta rule behind a norm in most layers, in the others OLMo 2's attention with norms behind both
// parts. GGUF has no word for it: files of this name are what `quire convert` writes.
#include "model/arch/delta.h"

namespace quire {
namespace {

constexpr float kNormEps = 1e-5F;  // of a rule's heads, whatever the others' is
constexpr const char* kBetaScale = "ssm.beta_scale";

class OlmoHybrid final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(read_delta_config(file, prefix, c));
    QR_TRY(const double scale, file.meta.get_double_or(prefix + kBetaScale, 1.0, 2.0, 1.0));
    c.state.beta_scale = static_cast<float>(scale);
    c.state.norm_eps = kNormEps;
    QR_TRY(const bool turns, file.meta.get_bool_or(prefix + "rope.scaling.finetuned", true));
    if (!turns) c.is_still.assign(static_cast<size_t>(c.n_layers), true);
    return {};
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    if (layer.attends) {
      load.vector(layer.post_attn_norm, "ffn_norm.weight", config().n_embd);
      load.vector(layer.post_ffn_norm, "post_ffw_norm.weight", config().n_embd);
      load_row_norms(load, layer);
    } else {
      load_norms(load, layer);
    }
    load_mixers(load, layer);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  QR_TRY(const bool is_doubled, hf.get_bool_or("linear_allow_neg_eigval", true));
  hf.set(kBetaScale, is_doubled ? 2.0 : 1.0, "linear_allow_neg_eigval");
  const bool turns = hf.find("rope_parameters.rope_theta") != nullptr || hf.find("rope_theta") != nullptr;
  hf.set("rope.scaling.finetuned", turns, "rope_parameters");
  return delta_facts(hf);
}

QR_REGISTER(ArchEntry,
            "olmo_hybrid",
            ArchEntry{
                .summary = "OLMo Hybrid: a gated delta rule in most layers, norms behind attention",
                .no_gguf = "unknown to gguf 0.19.0; files that say this name open",
                .hf = {.model_types = {"olmo_hybrid"},
                       .tensors = {{"model.layers.{}.attention_layer_norm.weight", "blk.{}.attn_norm.weight"},
                                   {"model.layers.{}.feedforward_layer_norm.weight", "blk.{}.ffn_norm.weight"},
                                   {"model.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
                                   {"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                   {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
                                   {"model.layers.{}.linear_attn.q_proj.weight", "blk.{}.attn_q.weight"},
                                   {"model.layers.{}.linear_attn.k_proj.weight", "blk.{}.attn_k.weight"},
                                   {"model.layers.{}.linear_attn.v_proj.weight", "blk.{}.attn_v.weight"},
                                   {"model.layers.{}.linear_attn.g_proj.weight", "blk.{}.attn_gate.weight"},
                                   {"model.layers.{}.linear_attn.b_proj.weight", "blk.{}.ssm_beta.weight"},
                                   {"model.layers.{}.linear_attn.a_proj.weight", "blk.{}.ssm_alpha.weight"},
                                   {.theirs = "model.layers.{}.linear_attn.q_conv1d.weight",
                                    .ours = "blk.{}.ssm_conv1d_q.weight",
                                    .reshape = without_middle},
                                   {.theirs = "model.layers.{}.linear_attn.k_conv1d.weight",
                                    .ours = "blk.{}.ssm_conv1d_k.weight",
                                    .reshape = without_middle},
                                   {.theirs = "model.layers.{}.linear_attn.v_conv1d.weight",
                                    .ours = "blk.{}.ssm_conv1d_v.weight",
                                    .reshape = without_middle},
                                   {"model.layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias"},
                                   {.theirs = "model.layers.{}.linear_attn.A_log",
                                    .ours = "blk.{}.ssm_a",
                                    .reshape = minus_exp},
                                   {"model.layers.{}.linear_attn.o_norm.weight", "blk.{}.ssm_norm.weight"},
                                   {"model.layers.{}.linear_attn.o_proj.weight", "blk.{}.ssm_out.weight"}},
                       .facts = facts,
                       .state_layers = {"linear_attention"}},
                .load = &load_decoder<OlmoHybrid>,
                .info = &decoder_info<OlmoHybrid>});

}  // namespace
}  // namespace quire
