// OLMoE: Qwen 3's layers with experts, but for the norms of q and k, which are of all heads of a row together.
#include "model/decoder.h"

namespace quire {
namespace {

class Olmoe final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY(c.routing.normalised, file.meta.get_bool_or(prefix + "expert_weights_norm", false));
    return {};
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load_row_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  if (hf.find("clip_qkv") != nullptr) return fail(Code::unsupported, "key \"clip_qkv\": is not supported");
  return hf.require("hidden_act", {"silu"});
}

QR_REGISTER(ArchEntry,
            "olmoe",
            ArchEntry{.summary = "OLMoE: experts, norms over all of q and of k",
                      .hf = {.model_types = {"olmoe"},
                             .tensors = {{"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                         {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"}},
                             .facts = facts},
                      .load = &load_decoder<Olmoe>,
                      .info = &decoder_info<Olmoe>});

}  // namespace
}  // namespace quire
