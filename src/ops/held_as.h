// How the numbers of an adapter's matrix lie in memory. Each is exact: none rounds what it holds.
#pragma once
#include <cstdint>

namespace quire {

enum class HeldAs : uint8_t { f32, f16, bf16 };
inline constexpr int kHeldAs = 3;
constexpr int64_t held_bytes(HeldAs held) { return held == HeldAs::f32 ? 4 : 2; }

}  // namespace quire
