// Arcee (AFM 4.5B): Llama's shape with units without a gate, of squares.
#include "model/decoder.h"

namespace quire {
namespace {

class Arcee final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.activation = Activation::relu2;
    c.has_gate = false;
    return read_pairs(file, prefix, c);
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"relu2"}); }

QR_REGISTER(ArchEntry,
            "arcee",
            ArchEntry{.summary = "Arcee: Llama's shape, units of squares without a gate",
                      .hf = {.model_types = {"arcee"}, .facts = facts, .pairs_in_gguf = true},
                      .load = &load_decoder<Arcee>,
                      .info = &decoder_info<Arcee>});

}  // namespace
}  // namespace quire
