// GLM 4.5 and its kin: experts by sigmoids with a bias of the choice, a shared unit beside them, first layers without;
// half of a head turns; norms of heads in the larger one. Layers that guess ahead (nextn) stand behind the others and
// are left out (model/mtp.h).
#include "model/decoder.h"
#include "model/mtp.h"

namespace quire {
namespace {

class Glm4Moe final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.routing.scoring = Routing::Scoring::sigmoid;
    c.routing.expert_groups_by_two = true;
    return leave_out_nextn(file, prefix, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load.vector(layer.attn_norm, "attn_norm.weight", config().n_embd);
    load.vector(layer.ffn_norm, "post_attention_norm.weight", config().n_embd);
    if (load.has("attn_q_norm.weight")) load_head_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  return take_mtp_layers(hf);
}

QR_REGISTER(ArchEntry,
            "glm4moe",
            ArchEntry{.summary = "GLM 4.5 to 4.7: experts by sigmoids, a shared one, dense first layers",
                      .hf = {.model_types = {"glm4_moe"},
                             .tensors = {{"model.layers.{}.post_attention_layernorm.weight",
                                          "blk.{}.post_attention_norm.weight"},
                                         {"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                         {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"}},
                             .facts = facts},
                      .load = &load_decoder<Glm4Moe>,
                      .info = &decoder_info<Glm4Moe>});

}  // namespace
}  // namespace quire
