// Qwen 1.5 and 2 with experts: biases on q, k and v, and a shared unit that every row takes as much of as its gate
// says.
#include "model/decoder.h"

namespace quire {
namespace {

class Qwen2Moe final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    if (c.n_ff_shared == 0) c.n_ff_shared = c.n_ff;
    QR_TRY(c.routing.normalised, file.meta.get_bool_or(prefix + "expert_weights_norm", false));
    return {};
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
    if (!layer.router.empty()) load.gate(layer.shared_gate, "ffn_gate_inp_shexp", config().n_embd);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  return hf.choose_windows();
}

QR_REGISTER(
    ArchEntry,
    "qwen2moe",
    ArchEntry{.summary = "Qwen 1.5 and 2 with experts and a gated shared one",
              .hf = {.model_types = {"qwen2_moe"},
                     .tensors = {{"model.layers.{}.mlp.shared_expert.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight"},
                                 {"model.layers.{}.mlp.shared_expert.up_proj.weight", "blk.{}.ffn_up_shexp.weight"},
                                 {"model.layers.{}.mlp.shared_expert.down_proj.weight", "blk.{}.ffn_down_shexp.weight"},
                                 {"model.layers.{}.mlp.shared_expert_gate.weight", "blk.{}.ffn_gate_inp_shexp.weight"}},
                     .facts = facts},
              .load = &load_decoder<Qwen2Moe>,
              .info = &decoder_info<Qwen2Moe>});

}  // namespace
}  // namespace quire
