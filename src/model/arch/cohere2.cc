// Command R7B and Command A: Command R's layers, three of four behind a window; the fourth does not turn.
#include "model/arch/cohere.h"

namespace quire {
namespace {

constexpr int kPeriod = 4;  // of local and global layers

class Cohere2 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(configure_cohere(file, prefix, c));
    QR_TRY_VOID(read_windows(file, kPeriod, c));
    c.is_still = c.is_local;
    c.is_still.flip();
    return {};
  }
};

QR_REGISTER(ArchEntry,
            "cohere2",
            ArchEntry{.summary = "Command R7B and Command A: parallel parts, windows, layers without positions",
                      .hf = {.model_types = {"cohere2"}, .facts = cohere_facts},
                      .load = &load_decoder<Cohere2>,
                      .info = &decoder_info<Cohere2>});

}  // namespace
}  // namespace quire
