// What this room holds for clients.
#include "base/held_memory.h"

#include "base/line_writer.h"

namespace quire {
namespace {

QR_REGISTER(HeldRows, "base", [] {
  const auto log_bytes = static_cast<int64_t>(LineLimits().bytes);
  return std::vector<HeldRow>{
      {.what = "lines of the log that nobody has read",
       .in_all = {"2 × log_bytes", 2 * log_bytes},
       .test = "LineWriter.HoldsNoMoreThanItsLimits"},
  };
});

}  // namespace
}  // namespace quire
