// Mistral: Llama's shape, and where the file says so every layer sees a window of the last keys only. (GGUF has no
// architecture of this name: its Mistral files say llama, and llama.cc heeds a window as well.)
#include "model/decoder.h"
#include "model/gguf_form.h"

namespace quire {
namespace {

class Mistral final : public Decoder {};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

Status as_gguf(ModelFile& file) {
  rename_arch(file, "mistral", "llama");
  return {};
}

QR_REGISTER(ArchEntry,
            "mistral",
            ArchEntry{.summary = "Mistral with or without a sliding window",
                      .no_gguf = "these are `llama` there",
                      .hf = {.model_types = {"mistral"}, .facts = facts, .as_gguf = as_gguf},
                      .load = &load_decoder<Mistral>,
                      .info = &decoder_info<Mistral>});

}  // namespace
}  // namespace quire
