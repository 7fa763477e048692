// Qwen 3.5, text, with experts.
#include "model/arch/qwen3next.h"

namespace quire {
namespace {

QR_REGISTER(ArchEntry,
            "qwen35moe",
            qwen35_entry("Qwen 3.5, text, with experts and a gated shared one", {"qwen3_5_moe_text", "qwen3_5_moe"}));

}  // namespace
}  // namespace quire
