// The version of docs/numerics.md: with another one the same inputs may have other bits.
#pragma once
#include <cstdint>

namespace quire {

inline constexpr uint64_t kNumericsVersion = 4;

}  // namespace quire
