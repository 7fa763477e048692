// Granite 3 with experts, whose gates and ups a Hugging Face folder has in one tensor.
#include "model/arch/granite.h"

namespace quire {
namespace {

QR_REGISTER(ArchEntry,
            "granitemoe",
            ArchEntry{.summary = "Granite with experts",
                      .hf = {.model_types = {"granitemoe"},
                             .tensors = granite_tensors({}),
                             .facts = granite_facts,
                             .pairs_in_gguf = true},
                      .load = &load_decoder<Granite>,
                      .info = &decoder_info<Granite>});

}  // namespace
}  // namespace quire
