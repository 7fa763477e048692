// Command R: both parts of a layer read the same rows behind one layer norm, rotated pairs lie side by side, logits
// have a factor. The norms of heads that Command R+ has are refused.
#include "model/arch/cohere.h"

namespace quire {
namespace {

class CommandR final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    return configure_cohere(file, prefix, c);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require_bool("use_qk_norm", false));
  return cohere_facts(hf);
}

QR_REGISTER(ArchEntry,
            "command-r",
            ArchEntry{.summary = "Command R: parallel parts, layer norms",
                      .hf = {.model_types = {"cohere"}, .facts = facts},
                      .load = &load_decoder<CommandR>,
                      .info = &decoder_info<CommandR>});

}  // namespace
}  // namespace quire
