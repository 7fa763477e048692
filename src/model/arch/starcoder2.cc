// StarCoder 2: layer norms, biases everywhere, units without a gate, possibly a window.
#include "model/decoder.h"

namespace quire {
namespace {

class Starcoder2 final : public Decoder {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.norm = NormKind::layer;
    c.activation = Activation::gelu_tanh;
    c.has_gate = false;
    return {};
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"gelu_pytorch_tanh"}); }

QR_REGISTER(ArchEntry,
            "starcoder2",
            ArchEntry{.summary = "StarCoder 2: layer norms, biases, units without a gate",
                      .hf = {.model_types = {"starcoder2"},
                             .tensors = {{"model.layers.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight"},
                                         {"model.layers.{}.mlp.c_fc.bias", "blk.{}.ffn_up.bias"},
                                         {"model.layers.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight"},
                                         {"model.layers.{}.mlp.c_proj.bias", "blk.{}.ffn_down.bias"}},
                             .facts = facts},
                      .load = &load_decoder<Starcoder2>,
                      .info = &decoder_info<Starcoder2>});

}  // namespace
}  // namespace quire
