// Phi-3 and what shares its shape (Phi-4 mini): q, k and v in one matrix, gate and up in one matrix, longrope, possibly
// partial rotation, possibly a window.
#include "model/decoder.h"

namespace quire {
namespace {

class Phi3 final : public Decoder {
 protected:
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    const DecoderConfig& c = config();
    load_norms(load, layer);
    load.linear(layer.qkv, "attn_qkv", q_dim() + 2 * kv_dim(), c.n_embd);
    load.linear(layer.attn_out, "attn_output", c.n_embd, q_dim());
    load.halves(layer.gate_up, "ffn_up", c.n_ff, c.n_embd);
    load.linear(layer.down, "ffn_down", c.n_embd, c.n_ff);
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

QR_REGISTER(ArchEntry,
            "phi3",
            ArchEntry{.summary = "Phi-3, Phi-3.5 and Phi-4 mini: fused matrices, longrope",
                      .hf = {.model_types = {"phi3"},
                             .tensors = {{"model.layers.{}.self_attn.qkv_proj.weight", "blk.{}.attn_qkv.weight"},
                                         {"model.layers.{}.mlp.gate_up_proj.weight", "blk.{}.ffn_up.weight"}},
                             .facts = facts},
                      .load = &load_decoder<Phi3>,
                      .info = &decoder_info<Phi3>});

}  // namespace
}  // namespace quire
