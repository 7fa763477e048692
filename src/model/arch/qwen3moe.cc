// Qwen 3 with experts: Qwen 3's attention; where a layer has a router, a row goes to a few of many small feed-forward
// parts.
#include "model/decoder.h"

namespace quire {
namespace {

class Qwen3Moe final : public Decoder {
 protected:
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load_head_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  return hf.choose_windows();
}

QR_REGISTER(ArchEntry,
            "qwen3moe",
            ArchEntry{.summary = "Qwen 3 with experts",
                      .hf = {.model_types = {"qwen3_moe"},
                             .tensors = {{"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                         {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"}},
                             .facts = facts},
                      .load = &load_decoder<Qwen3Moe>,
                      .info = &decoder_info<Qwen3Moe>});

}  // namespace
}  // namespace quire
