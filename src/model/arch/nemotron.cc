// Nemotron (Minitron) 4B to 340B: layer norms whose weights Hugging Face stores less one, half of a head turns, units
// of squares without a gate.
#include "model/decoder.h"

namespace quire {
namespace {

class Nemotron final : public Decoder {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.norm = NormKind::layer;
    c.activation = Activation::relu2;
    c.has_gate = false;
    return {};
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"relu2"}); }

QR_REGISTER(ArchEntry,
            "nemotron",
            ArchEntry{
                .summary = "Nemotron, dense: layer norms, units of squares without a gate",
                .hf = {.model_types = {"nemotron"},
                       .tensors = {{"model.norm.weight", "output_norm.weight", true},
                                   {"model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", true},
                                   {"model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight", true}},
                       .facts = facts},
                .load = &load_decoder<Nemotron>,
                .info = &decoder_info<Nemotron>});

}  // namespace
}  // namespace quire
