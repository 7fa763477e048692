// Qwen 2 and 2.5: Llama's shape with biases on q, k and v. A window, where one is switched on, holds for the layers
// from max_window_layers on.
#include "model/decoder.h"

namespace quire {
namespace {

class Qwen2 final : public Decoder {
 protected:
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    const DecoderConfig& c = config();
    load_norms(load, layer);
    load.biased_linear(layer.qkv, "attn_q", q_dim(), c.n_embd);
    load.biased_linear(layer.qkv, "attn_k", kv_dim(), c.n_embd);
    load.biased_linear(layer.qkv, "attn_v", kv_dim(), c.n_embd);
    load.linear(layer.attn_out, "attn_output", c.n_embd, q_dim());
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  return hf.choose_windows();
}

QR_REGISTER(ArchEntry,
            "qwen2",
            ArchEntry{.summary = "Qwen 2 and 2.5: biases on q, k and v",
                      .hf = {.model_types = {"qwen2"}, .facts = facts},
                      .load = &load_decoder<Qwen2>,
                      .info = &decoder_info<Qwen2>});

}  // namespace
}  // namespace quire
