// Llama 2/3 and what shares its shape: RMS norm, rotary positions (llama3 and other scalings), grouped-query attention,
// SiLU-gated feed forward, biases only where the file has them, output possibly tied to the embedding. GGUF stores q
// and k permuted for interleaved pairs; Hugging Face folders have halves ("llama.rope.halves").
#include "model/decoder.h"

namespace quire {
namespace {

class Llama final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    return read_pairs(file, prefix, c);
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

QR_REGISTER(ArchEntry,
            "llama",
            ArchEntry{.summary = "Llama 2, 3.x and their shape; GGUF files of Mistral too",
                      .hf = {.model_types = {"llama"}, .facts = facts, .pairs_in_gguf = true},
                      .load = &load_decoder<Llama>,
                      .info = &decoder_info<Llama>});

}  // namespace
}  // namespace quire
