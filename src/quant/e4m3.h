// A number as the nearest float e4m3 (quant/f16.h has the other way). Ties to even; what is beyond 448 becomes 448,
// what is not a finite number becomes NaN.
#pragma once
#include "quant/f16.h"

namespace quire {

inline constexpr float kMostE4m3 = 448;

QR_INLINE uint8_t f32_to_e4m3(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7fffffffU;
  const uint32_t most = std::bit_cast<uint32_t>(kMostE4m3);
  const uint32_t kept = magnitude < most ? magnitude : most;
  // Below 2^-6 numbers are multiples of 2^-9, the distance of floats from 2^14 on.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(kept) + 0x1p14F) & 0xffU;
  const uint32_t normal = ((kept + 0x7ffffU + (kept >> 20 & 1U)) >> 20) - (120U << 3);
  uint32_t code = kept < std::bit_cast<uint32_t>(0x1p-6F) ? small : normal;
  code = magnitude < 0x7f800000U ? code : 0x7fU;
  return static_cast<uint8_t>(code | (bits >> 24 & 0x80U));
}

}  // namespace quire
