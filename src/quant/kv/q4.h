// KV codec q4: four bits per component, an f32 scale per row (docs/numerics.md, "Attention"). A quarter of the memory
// of f16 and a little more.
//   strip of keys    [16] scales, [dim / 2][16] bytes: components d (low half) and d + 1 of 16 keys, padding
//   strip of values  [16] scales, [16][dim / 32][16] bytes: components d (low half) and d + 16 of a value
// A number n in 0 … 15 stands for (n − 8) · scale. The scale is what makes −8 of the component that is farthest from
// zero. Keys and values are rotated first (quant/rotation.h); queries are too, and results are rotated back: four bits
// under one scale are too few for a row with a few large components. docs/kv.md has what it costs.
#pragma once
#include "quant/f16.h"
#include "quant/kv_codec.h"
#include "quant/kv_scaled.h"
#include "quant/rotation.h"

namespace quire {

struct KvQ4 : KvScaled {
  static constexpr std::string_view kName = "q4";
  static constexpr bool kForResearch = true;
  static constexpr bool kRotatesValues = true;
  static constexpr int64_t row_bytes(int dim) { return value_bytes(dim) + int64_t{sizeof(float)}; }

  static QR_INLINE void put_k(std::byte* strip, int t, int dim, const float* row) {
    int8_t numbers[kMaxRotated];
    store_as(scale_at(strip, t), encode(row, dim, numbers));
    for (int d = 0; d < dim; d += 2) {
      const int high = d + 1 < dim ? numbers[d + 1] : 0;
      strip[kScales + int64_t{d} / 2 * kStripTokens + t] = static_cast<std::byte>(numbers[d] | high << 4);
    }
  }
  static QR_INLINE void get_k(const std::byte* strip, int t, int dim, float* row) {
    const auto scale = load_as<float>(scale_at(strip, t));
    for (int d = 0; d < dim; ++d) {
      row[d] = scale * number(strip[kScales + int64_t{d} / 2 * kStripTokens + t], d % 2 == 1);
    }
    unrotate_key(row, dim);
  }
  static QR_INLINE void put_v(std::byte* strip, int t, int dim, const float* row) {
    int8_t numbers[kMaxRotated + 31];
    store_as(scale_at(strip, t), encode(row, dim, numbers));
    for (int d = dim; d % 32 != 0; ++d) numbers[d] = 0;
    std::byte* at = strip + kScales + t * value_bytes(dim);
    for (int d = 0; d < dim; d += 32) {
      for (int i = 0; i < 16; ++i) *at++ = static_cast<std::byte>(numbers[d + i] | numbers[d + 16 + i] << 4);
    }
  }
  static QR_INLINE void get_v(const std::byte* strip, int t, int dim, float* row) {
    const auto scale = load_as<float>(scale_at(strip, t));
    const std::byte* at = strip + kScales + t * value_bytes(dim);
    for (int d = 0; d < dim; ++d) row[d] = scale * number(at[d / 32 * 16 + d % 16], d % 32 >= 16);
    unrotate_key(row, dim);
  }
  static QR_INLINE void values_of_keys(const std::byte* keys, int d, int n, int dim, std::byte* values) {
    for (int t = 0; t < kStripTokens; ++t) {
      std::byte* row = values + kScales + t * value_bytes(dim);
      for (int i = 0; i < n; ++i) {
        const int pair = static_cast<int>(keys[kScales + int64_t{d + i} / 2 * kStripTokens + t]);
        const int half = pair >> ((d + i) % 2 * 4) & 15;
        std::byte& both = row[i / 32 * 16 + i % 16];
        both = i % 32 < 16 ? static_cast<std::byte>(half) : both | static_cast<std::byte>(half << 4);
      }
    }
  }
  template <class V>
  static QR_INLINE typename V::F load_k(const std::byte* strip, int d) {
    const std::byte* pairs = strip + kScales + int64_t{d} / 2 * kStripTokens;
    return d % 2 == 0 ? V::template load_centred_nibbles<0>(pairs) : V::template load_centred_nibbles<4>(pairs);
  }
  template <class V>
  static QR_INLINE typename V::F load_v(const std::byte* strip, int t, int dim, int d) {
    const std::byte* pairs = strip + kScales + t * value_bytes(dim) + d / 32 * 16;
    return d % 32 == 0 ? V::template load_centred_nibbles<0>(pairs) : V::template load_centred_nibbles<4>(pairs);
  }

 private:
  static constexpr int64_t value_bytes(int dim) { return (int64_t{dim} + 31) / 32 * 16; }

  static QR_INLINE float number(std::byte pair, bool high) {
    return static_cast<float>((static_cast<int>(pair) >> (high ? 4 : 0) & 15) - 8);
  }
  static QR_INLINE int32_t nearest(float x) {
    const float kept = x > 7.0F ? 7.0F : x;  // none is below −8
    return static_cast<int32_t>(std::bit_cast<uint32_t>(kept + kMagic) - 0x4b400000U) + 8;
  }
  // The row, rotated, as numbers of 0 … 15. Returns the scale: NaN where the row is not finite.
  static QR_INLINE float encode(const float* row, int dim, int8_t* numbers) {
    float rotated[kMaxRotated];
    rotate_key(row, dim, rotated);
    const float amax = largest_of(rotated, dim);
    if (amax < kSmallest || !is_finite(amax)) {
      for (int d = 0; d < dim; ++d) numbers[d] = 8;
      return is_finite(amax) ? 0.0F : nan();
    }
    bool is_below = false;  // zero: the farthest component, one of them
    for (int d = 0; d < dim; ++d) is_below = is_below || rotated[d] == -amax;
    const float farthest = is_below ? -amax : amax;
    const float inverse = -8.0F / farthest;
    for (int d = 0; d < dim; ++d) numbers[d] = static_cast<int8_t>(nearest(rotated[d] * inverse));
    return farthest / -8.0F;
  }
};

}  // namespace quire
