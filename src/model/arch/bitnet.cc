// BitNet b1.58: Llama's shape, units of gated squares, a norm in front of the last product of each part. Its weights
// are of three values; folders and GGUF files hold them as floats, or in any format.
#include "model/decoder.h"

namespace quire {
namespace {

class BitNet final : public Decoder {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.activation = Activation::relu2;
    return {};
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    Decoder::load_layer(load, layer);
    load.vector(layer.mixed_norm, "attn_sub_norm.weight", q_dim());
    load.vector(layer.unit_norm, "ffn_sub_norm.weight", config().n_ff);
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"relu2"}); }

QR_REGISTER(ArchEntry,
            "bitnet",
            ArchEntry{
                .summary = "BitNet b1.58: norms inside of both parts, units of gated squares",
                .hf = {.model_types = {"bitnet"},
                       .tensors = {{"model.layers.{}.self_attn.attn_sub_norm.weight", "blk.{}.attn_sub_norm.weight"},
                                   {"model.layers.{}.mlp.ffn_sub_norm.weight", "blk.{}.ffn_sub_norm.weight"}},
                       .facts = facts},
                .load = &load_decoder<BitNet>,
                .info = &decoder_info<BitNet>});

}  // namespace
}  // namespace quire
