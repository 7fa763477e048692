// Qwen 3.5, text, dense.
#include "model/arch/qwen3next.h"

namespace quire {
namespace {

QR_REGISTER(ArchEntry,
            "qwen35",
            qwen35_entry("Qwen 3.5, text, dense: a gated delta rule in most layers, gated attention",
                         {"qwen3_5_text", "qwen3_5"}));

}  // namespace
}  // namespace quire
