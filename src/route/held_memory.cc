// What this room holds for clients, beside what its sockets do.
#include "base/held_memory.h"

#include "route/limits.h"

namespace quire {
namespace {

constexpr int64_t kBlockBytes = 160,
                  kSessionBytes = 160;  // an entry in a list and in a table, with the allocator's share

std::vector<HeldRow> rows() {
  const RouteLimits l;
  return {
      {.what = "router: answers and events that are held until they are whole",
       .of_request = {"gathered_bytes or event_bytes", l.gathered_bytes},
       .in_all = {"held_bytes", l.held_bytes},
       .test = "Proxied.WholeAnswersKeepTheirLengthAndWhatFindsNoRoomIsPassedOnAsItComes"},
      {.what = "router: beginnings of prompts and sessions, and their workers",
       .in_all = {"160 × n_prefix_blocks + 160 × n_sessions",
                  kBlockBytes * l.n_prefix_blocks + kSessionBytes * l.n_sessions},
       .test = "PrefixMap.FindsTheLeadingBlocksOfEachAndForgetsTheEndsFirst"},
  };
}

QR_REGISTER(HeldRows, "route", rows);

}  // namespace
}  // namespace quire
