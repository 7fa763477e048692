// AFMoE (Trinity): a gate of what attention found, norms before and behind both parts and on heads, three layers of
// four behind a window and the fourth does not turn, a scaled embedding; experts by sigmoids with a bias of the choice,
// shared ones, dense first layers.
#include <cmath>

#include "model/decoder.h"

namespace quire {
namespace {

constexpr int kPeriod = 4;  // of local and global layers

class Afmoe final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.routing.scoring = Routing::Scoring::sigmoid;
    c.routing.normalised = true;
    const double natural = std::sqrt(static_cast<double>(c.n_embd));
    QR_TRY(const double embedding, file.meta.get_double_or(prefix + "embedding_scale", 1e-6, 1e6, natural));
    c.embed_scale = static_cast<float>(embedding);
    QR_TRY_VOID(read_windows(file, kPeriod, c));
    c.is_still.assign(static_cast<size_t>(c.n_layers), true);
    for (size_t l = 0; l < c.is_local.size(); ++l) c.is_still[l] = !c.is_local[l];
    return {};
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load_post_norms(load, layer);
    load_head_norms(load, layer);
    load_attention(load, layer);
    load.linear(layer.attn_gate, "attn_gate", q_dim(), config().n_embd);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"num_shared_experts"}, "expert_shared_count");
  hf.copy({"route_scale"}, "expert_weights_scale");
  QR_TRY(const bool scaled, hf.get_bool_or("mup_enabled", false));
  if (!scaled) hf.set("embedding_scale", 1.0, "mup_enabled");
  return hf.require("hidden_act", {"silu"});
}

QR_REGISTER(ArchEntry,
            "afmoe",
            ArchEntry{.summary = "AFMoE (Trinity): gated attention, windows, experts by sigmoids, shared ones",
                      .hf = {.model_types = {"afmoe"},
                             .tensors = {{"model.layers.{}.post_attention_layernorm.weight",
                                          "blk.{}.post_attention_norm.weight"},
                                         {"model.layers.{}.pre_mlp_layernorm.weight", "blk.{}.ffn_norm.weight"},
                                         {"model.layers.{}.post_mlp_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
                                         {"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                         {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
                                         {"model.layers.{}.self_attn.gate_proj.weight", "blk.{}.attn_gate.weight"},
                                         {"model.layers.{}.mlp.router.gate.weight", "blk.{}.ffn_gate_inp.weight"},
                                         {"model.layers.{}.mlp.expert_bias", "blk.{}.exp_probs_b.bias"}},
                             .facts = facts},
                      .load = &load_decoder<Afmoe>,
                      .info = &decoder_info<Afmoe>});

}  // namespace
}  // namespace quire
