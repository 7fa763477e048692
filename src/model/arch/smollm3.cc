// SmolLM 3: Llama's shape, of which every fourth layer does not turn.
#include "model/decoder.h"

namespace quire {
namespace {

constexpr int kPeriod = 4;
constexpr const char* kTurns = "rope.layers";  // of folders: 1 and 0 in the layers' order; GGUF has no word for it

class SmolLm3 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    const MetaValue* listed = file.meta.find(prefix + kTurns);
    const auto* turns = listed != nullptr ? std::get_if<std::vector<int64_t>>(listed) : nullptr;
    if (listed != nullptr && (turns == nullptr || turns->size() != static_cast<size_t>(c.n_layers))) {
      return fail(Code::corrupt, "key " + file.meta.shown(prefix + kTurns) + ": must have " +
                                     std::to_string(c.n_layers) + " entries, has " +
                                     std::to_string(turns != nullptr ? turns->size() : 0));
    }
    for (int l = 0; l < c.n_layers; ++l) {
      c.is_still.push_back(turns != nullptr ? (*turns)[static_cast<size_t>(l)] == 0 : l % kPeriod == kPeriod - 1);
    }
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
