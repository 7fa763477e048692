// Qwen 3, dense: Llama's shape with a norm over each head of q and k before they turn.
#include "model/decoder.h"

namespace quire {
namespace {

class Qwen3 final : public Decoder {
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
            "qwen3",
            ArchEntry{.summary = "Qwen 3, dense: norms on the heads of q and k",
                      .hf = {.model_types = {"qwen3"},
                             .tensors = {{"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                         {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"}},
                             .facts = facts},
                      .load = &load_decoder<Qwen3>,
                      .info = &decoder_info<Qwen3>});

}  // namespace
}  // namespace quire
