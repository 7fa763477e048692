// How many of a clock's ticks a limit's unit has.
#pragma once
#include <cstdint>

namespace quire {

inline constexpr int64_t kNsPerMs = 1'000'000, kNsPerSecond = 1'000'000'000;

}  // namespace quire
