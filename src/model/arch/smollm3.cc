// SmolLM 3: Llama's shape, of which every fourth layer does not turn.
#include "model/decoder.h"

namespace quire {
namespace {

constexpr int kPeriod = 4;

class SmolLm3 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(read_turns(file, prefix, kPeriod, c));
    return read_pairs(file, prefix, c);
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"no_rope_layers"}, kTurns);
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  return hf.choose_windows();
}

QR_REGISTER(ArchEntry,
            "smollm3",
            ArchEntry{.summary = "SmolLM 3: Llama's shape, every fourth layer without positions",
                      .hf = {.model_types = {"smollm3"}, .facts = facts, .pairs_in_gguf = true},
                      .load = &load_decoder<SmolLm3>,
                      .info = &decoder_info<SmolLm3>});

}  // namespace
}  // namespace quire
