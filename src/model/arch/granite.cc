// Granite 3 and 4, dense.
#include "model/arch/granite.h"

namespace quire {
namespace {

QR_REGISTER(ArchEntry,
            "granite",
            ArchEntry{.summary = "Granite, dense: Llama's shape with factors",
                      .hf = {.model_types = {"granite"}, .facts = granite_facts, .pairs_in_gguf = true},
                      .load = &load_decoder<Granite>,
                      .info = &decoder_info<Granite>});

}  // namespace
}  // namespace quire
