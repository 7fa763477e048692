// What a stored number means before its scale: whole numbers from a lowest one on, or sixteen levels of a table. The
// kernels multiply unsigned bytes value + kZero, at most kMax.
#pragma once
#include "quant/f16.h"

namespace quire {

template <int kLow, int kHigh>
struct Whole {
  static constexpr int kZero = -kLow, kMax = kHigh - kLow;
  static constexpr float kLowest = kLow, kHighest = kHigh;

  static QR_INLINE int value(uint8_t number) { return number + kLow; }
  // The level nearest to v, ties to even; the lowest for NaN.
  static QR_INLINE float nearest(float v) {
    const float above = v > kLowest ? v : kLowest;
    const float inside = above < kHighest ? above : kHighest;
    return inside + 12582912.0F - 12582912.0F;  // 1.5·2^23: the addition rounds to an integer
  }
  static QR_INLINE uint8_t number(float level) { return static_cast<uint8_t>(static_cast<int>(level) - kLow); }
  template <class V>
  static QR_INLINE typename V::U bytes(typename V::U numbers) {
    return numbers;
  }
};

// Sixteen levels in any order, as the bytes of two words: level i is the signed byte i.
template <uint64_t kLowWord, uint64_t kHighWord, int kZeroOfBytes>
struct Table {
  static constexpr int kZero = kZeroOfBytes;

  static constexpr int value(uint8_t number) {
    return static_cast<int8_t>((number < 8 ? kLowWord : kHighWord) >> (8 * (number % 8)) & 0xff);
  }
  static constexpr int extreme(int sign) {
    int out = 0;
    for (uint8_t i = 0; i < 16; ++i) out = sign * value(i) > sign * out ? value(i) : out;
    return out;
  }
  static constexpr int kMax = extreme(1) + kZero;
  static constexpr float kLowest = static_cast<float>(extreme(-1)), kHighest = static_cast<float>(extreme(1));

  // The level nearest to v, ties to the lower number; the first for NaN.
  static QR_INLINE float nearest(float v) { return static_cast<float>(value(number(v))); }
  static QR_INLINE uint8_t number(float v) {
    uint8_t best = 0;
    float least = __builtin_fabsf(v - static_cast<float>(value(0)));
    for (uint8_t i = 1; i < 16; ++i) {
      const float error = __builtin_fabsf(v - static_cast<float>(value(i)));
      best = error < least ? i : best;
      least = error < least ? error : least;
    }
    return best;
  }
  template <class V>
  static QR_INLINE typename V::U bytes(typename V::U numbers) {
    constexpr uint64_t kEach = 0x0101010101010101U * static_cast<uint64_t>(kZero);
    return V::template look_up<add_bytes(kLowWord, kEach), add_bytes(kHighWord, kEach)>(numbers);
  }

 private:
  static constexpr uint64_t add_bytes(uint64_t a, uint64_t b) {
    constexpr uint64_t kTop = 0x8080808080808080U;
    return ((a & ~kTop) + (b & ~kTop)) ^ ((a ^ b) & kTop);
  }
};

// The levels of the IQ4 formats, denser near zero: −127 −104 −83 −65 −49 −35 −22 −10 1 13 25 38 53 69 89 113.
using UnevenLevels = Table<0xf6eaddcfbfad9881, 0x7159453526190d01, 128>;

}  // namespace quire
