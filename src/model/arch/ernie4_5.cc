// ERNIE 4.5, dense: Llama's shape, pairs side by side in every kind of file.
#include "model/decoder.h"

namespace quire {
namespace {

class Ernie final : public Decoder {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.rope_pairs = RopePairs::interleaved;
    return {};
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

QR_REGISTER(ArchEntry,
            "ernie4_5",
            ArchEntry{.summary = "ERNIE 4.5, dense",
                      .hf = {.model_types = {"ernie4_5"}, .facts = facts},
                      .load = &load_decoder<Ernie>,
                      .info = &decoder_info<Ernie>});

}  // namespace
}  // namespace quire
