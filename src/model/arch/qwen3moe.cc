// Qwen 3 with experts: where a layer has a router, a row goes to a few of many small feed-forward parts.
#include "model/arch/qwen3.h"

namespace quire {
namespace {

QR_REGISTER(ArchEntry, "qwen3moe", qwen3_entry("Qwen 3 with experts", "qwen3_moe"));

}  // namespace
}  // namespace quire
