// What clients can make the server hold, a row for each kind of it, and what bounds it. Every room registers its own
// rows (held_memory.cc); `quire limits` prints them all into docs/limits.md, and a test refuses a row that nothing
// bounds over the whole server. Plain values, read-only.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/registry.h"

namespace quire {

// `bytes` at the default limits, and where they come from: names of limits and what joins them. Empty: no bound of this
// kind (of one request of a thing that is no request's, say).
struct HeldBound {
  std::string_view from = {};
  int64_t bytes = 0;
};

// Of the tree of a parsed JSON text, at most for each byte of the text.
inline constexpr int64_t kTreeBytes = 40;

struct HeldRow {
  std::string_view what;
  HeldBound of_request{}, of_connection{}, of_key{};
  HeldBound in_all{};       // of the whole server, whoever and however many they are
  std::string_view test{};  // that fills it and sees it refused or let go; Suite.Name
};

// A room's rows, in the order of a request's way through it.
using HeldRows = std::vector<HeldRow> (*)();

}  // namespace quire
