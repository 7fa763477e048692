// Ministral 3 and Mistral Small 3.1 and later, text: Mistral's shape, whose queries grow with their position where the
// file says so.
#include "model/decoder.h"

namespace quire {
namespace {

class Mistral3 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY(c.query_scale.by, file.meta.get_double_or(prefix + "attention.temperature_scale", 0.0, 1e3, 0.0));
    QR_TRY(c.query_scale.length,
           file.meta.get_int_or(prefix + "rope.scaling.original_context_length", 1, int64_t{1} << 28, c.n_ctx));
    return read_pairs(file, prefix, c);
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"rope_parameters.llama_4_scaling_beta", "rope_scaling.llama_4_scaling_beta"}, "attention.temperature_scale");
  return hf.require("hidden_act", {"silu"});
}

QR_REGISTER(ArchEntry,
            "mistral3",
            ArchEntry{.summary = "Ministral 3 and Mistral Small 3.1, text: queries that grow with their position",
                      .hf = {.model_types = {"ministral3", "mistral3"}, .facts = facts, .pairs_in_gguf = true},
                      .load = &load_decoder<Mistral3>,
                      .info = &decoder_info<Mistral3>});

}  // namespace
}  // namespace quire
