// Nemotron-H with experts (Nemotron 3 Nano) in GGUF files; folders of it are nemotron_h's.
#include "model/arch/nemotron_h.h"

namespace quire {
namespace {

QR_REGISTER(ArchEntry,
            "nemotron_h_moe",
            ArchEntry{.summary = "Nemotron-H with experts without gates and a shared one",
                      .no_folder = "folders of it are `nemotron_h`",
                      .hf = {.model_types = {}, .lists_parts = true},
                      .load = &load_decoder<NemotronH>,
                      .info = &decoder_info<NemotronH>});

}  // namespace
}  // namespace quire
