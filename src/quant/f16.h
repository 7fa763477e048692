// Half and bfloat16 conversions, round to nearest even, bit-equal to the hardware's (vcvtps2ph, vcvtneps2bf16 apart
// from its zeros for subnormal numbers). Always inlined: kernel files compiled for wider instruction sets must
// leave no shared copy of them behind.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#define QR_INLINE inline __attribute__((always_inline))

namespace quire {

QR_INLINE float f16_to_f32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000U) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fU;
  const uint32_t fraction = h & 0x3ffU;
  if (exponent == 0x1f) {  // infinity, or NaN made quiet as the hardware does
    return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13) | (fraction != 0 ? 0x400000U : 0U));
  }
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;  // zero or a denormal: exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

QR_INLINE uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude >= 0x47800000U) {  // ≥ 65536: infinity, or NaN with its top fraction bits
    if (magnitude <= 0x7f800000U) return static_cast<uint16_t>(sign | 0x7c00U);
    return static_cast<uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
  }
  if (magnitude < 0x38800000U) {  // below the smallest normal half: the addition rounds to multiples of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);  // may carry into the exponent: that is right
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

QR_INLINE float bf16_to_f32(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

QR_INLINE uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// With zeros of their sign for numbers below the least normal one, as vcvtneps2bf16 has them.
QR_INLINE uint16_t f32_to_bf16_flushed(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000U) == 0) return static_cast<uint16_t>((bits >> 16) & 0x8000U);
  return f32_to_bf16(value);
}

// The float e4m3, one sign, four bits of exponent, three of mantissa: as half precision, 2^8 times smaller, and then
// itself. The kernels do it in the same steps.
QR_INLINE float e4m3_to_f32(uint8_t code) {
  const auto sign = static_cast<uint16_t>((code & 0x80U) << 8);
  const uint32_t magnitude = code & 0x7fU;
  const auto half = static_cast<uint16_t>(sign | (magnitude == 0x7fU ? 0x7fffU : magnitude << 7));
  return f16_to_f32(half) * 256.0F;
}

// Unaligned access to file bytes.
template <class T>
QR_INLINE T load_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
QR_INLINE void store_as(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace quire
