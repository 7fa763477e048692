// The base of a KV codec whose rows have one scale each (quant/kv_codec.h): 16 scales stand before a strip's rows, and
// multiply a finished score, or a probability, once per key.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "quant/f16.h"
#include "quant/kv_codec.h"

namespace quire {

struct KvScaled {
  static constexpr int kTogether = 1;
  static constexpr bool kPacks = false;
  static constexpr bool kValuesInKeys = true;
  static constexpr bool kRotatesKeys = true;
  static constexpr int64_t kScales = kStripTokens * sizeof(float);  // bytes before the rows of a strip

  template <class V>
  static QR_INLINE typename V::F scale_k(const std::byte* strip, typename V::F dots) {
    return V::mul(dots, V::load(reinterpret_cast<const float*>(strip)));
  }
  template <class V>
  static QR_INLINE typename V::F scale_v(const std::byte* strip, typename V::F weights) {
    return V::mul(weights, V::load(reinterpret_cast<const float*>(strip)));
  }

 protected:
  // Below it 127 / amax would be infinite; such a row is as good as zero.
  static constexpr float kSmallest = 0x1p-120F;
  static constexpr float kMagic = 12582912.0F;  // 1.5·2^23: adding it leaves the nearest integer in the low bits

  template <class Byte>
  static QR_INLINE Byte* scale_at(Byte* strip, int t) {
    return strip + t * int64_t{sizeof(float)};
  }
  // The largest magnitude; infinity or NaN where a component is none. As integers magnitudes order as the floats do,
  // NaN and infinity above all, so that one maximum finds both.
  static QR_INLINE float largest_of(const float* row, int dim) {
    uint32_t largest = 0;
    for (int d = 0; d < dim; ++d) {
      const uint32_t magnitude = std::bit_cast<uint32_t>(row[d]) & 0x7fffffffU;
      largest = magnitude > largest ? magnitude : largest;
    }
    return std::bit_cast<float>(largest);
  }
  static QR_INLINE bool is_finite(float largest) { return std::bit_cast<uint32_t>(largest) < 0x7f800000U; }
  static QR_INLINE float nan() { return std::bit_cast<float>(0x7fc00000U); }
};

}  // namespace quire
