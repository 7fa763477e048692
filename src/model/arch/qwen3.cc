// Qwen 3, dense.
#include "model/arch/qwen3.h"

namespace quire {
namespace {

QR_REGISTER(ArchEntry, "qwen3", qwen3_entry("Qwen 3, dense: norms on the heads of q and k", "qwen3"));

}  // namespace
}  // namespace quire
