// Integer formats of 256 numbers that are written in groups of eight or four: the number of a group of magnitudes in a
// grid (quant/grids.h), and a sign for each. A panel has a number for each magnitude and sign, so nothing of a grid is
// left for kernels:
//   value = d · unit · scale[g] · level(number)
// Scales are odd, 2·s + 1 of the s that a file block holds, and kUnit is a power of two, so that all of it is exact.
// Of a format T: kUnit, split and join as in quant/k_format.h; and for quant/grid_search.h
//   Grid, kGrid      how elements lie (GridOf), and the table
//   kMostScale       of s
//   kEvenSigns       whether of the signs of eight an even number is set; else each number has its own
//   kShiftGroup      numbers that share one shift in place of signs; 0: none
#pragma once
#include "quant/grids.h"
#include "quant/k_format.h"

namespace quire {

template <class T, class LevelsOf, class NumbersOf, int kScaleGroupOf>
struct GridFormat : KFormat<T, LevelsOf, NumbersOf, kScaleGroupOf, SubScale::only> {
  using Base = KFormat<T, LevelsOf, NumbersOf, kScaleGroupOf, SubScale::only>;

  static QR_INLINE void decode(const std::byte* block, float* out) {
    KParts parts{};
    T::split(block, parts);
    const float d = f16_to_f32(parts.d) * T::kUnit;
    for (int i = 0; i < Base::kBlock; ++i) {
      out[i] = d * static_cast<float>(parts.scale[i / kScaleGroupOf]) * static_cast<float>(LevelsOf::value(parts.q[i]));
    }
  }

  template <class V>
  struct Scales : Base::template Scales<V> {
    Scales() = default;
    explicit QR_INLINE Scales(const std::byte* scales) : Base::template Scales<V>(scales) {
      if constexpr (T::kUnit != 1.0F) this->d = V::mul(this->d, V::set1(T::kUnit));
    }
  };
};

// A grid of kPer elements of kBits bits each. A number in a panel is an element with the sign (or the shift) above it.
template <int kPer, int kBitsOf>
struct GridOf {
  static constexpr int kLength = kPer, kBits = kBitsOf;
  static constexpr unsigned kElement = (1U << kBits) - 1, kSign = 1U << kBits;

  template <int kN>
  static QR_INLINE void put(const uint16_t (&grid)[kN], unsigned at, unsigned signs, uint8_t* q) {
    for (int i = 0; i < kPer; ++i) {
      q[i] = static_cast<uint8_t>((grid[at] >> (kBits * i) & kElement) | (signs >> i & 1U) << kBits);
    }
  }
  // Where the grid has the elements of q; what it has not, no file can hold.
  // REQUIRES kN is a power of two.
  template <int kN>
  static QR_INLINE unsigned find(const uint16_t (&grid)[kN], const uint8_t* q) {
    unsigned elements = 0;
    for (int i = 0; i < kPer; ++i) elements |= (q[i] & kElement) << (kBits * i);
    unsigned at = 0;
    for (unsigned step = kN / 2; step > 0; step /= 2) at += grid[at + step] <= elements ? step : 0;
    return at;
  }
  static QR_INLINE unsigned signs(const uint8_t* q) {
    unsigned out = 0;
    for (int i = 0; i < kPer; ++i) out |= (q[i] >> kBits & 1U) << i;
    return out;
  }
};
using GridOf8 = GridOf<8, 2>;
using GridOf4 = GridOf<4, 3>;

// Seven signs of eight: the last one makes the number of them even.
QR_INLINE unsigned with_eighth_sign(unsigned signs) {
  return signs | static_cast<unsigned>(__builtin_popcount(signs) & 1) << 7;
}

// Four-bit scales, two in a byte, the first in its low bits; of each the odd number.
QR_INLINE void split_odd_scales(const std::byte* from, int n, int8_t* scale) {
  for (int g = 0; g < n; ++g) {
    scale[g] = static_cast<int8_t>(2 * (static_cast<uint8_t>(from[g / 2]) >> (4 * (g % 2)) & 15) + 1);
  }
}
QR_INLINE void join_odd_scales(const int8_t* scale, int n, std::byte* to) {
  for (int g = 0; g < n; g += 2) to[g / 2] = static_cast<std::byte>(scale[g] >> 1 | scale[g + 1] >> 1 << 4);
}

// Magnitudes 8, 25 and 43, the negative ones from number 4 on.
using TwoBitLevels = Table<0xd5d5e7f82b2b1908, 0xd5d5e7f82b2b1908, 43>;
// Eight times −1, 0 and 1, with 1 added to them, or subtracted from number 4 on.
using ShiftedLevels = Table<0x0707fff7090901f9, 0x0707fff7090901f9, 9>;

}  // namespace quire
