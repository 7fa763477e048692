// KV codec f8: a byte per component, the float e4m3 (one sign, four bits of exponent, three of mantissa, no infinity;
// OCP 8-bit floating point). Half the memory of f16, without scales. Rounded to nearest even; what is beyond 448
// becomes 448, what is not a finite number becomes NaN. Keys are rotated first (quant/rotation.h): large components of
// a few models' keys would leave the range. docs/kv.md has what it costs.
#pragma once
#include "quant/e4m3.h"
#include "quant/kv_codec.h"
#include "quant/kv_transpose.h"
#include "quant/kv_unscaled.h"
#include "quant/rotation.h"

namespace quire {

struct KvF8 : KvUnscaled {
  static constexpr std::string_view kName = "f8";
  static constexpr bool kForResearch = true;
  static constexpr bool kRotatesKeys = true;
  static constexpr int64_t row_bytes(int dim) { return (int64_t{dim} + 3) / 4 * 4; }  // whole words

  static QR_INLINE void put_k(std::byte* strip, int t, int dim, const float* row) {
    float rotated[kMaxRotated];
    rotate_key(row, dim, rotated);
    for (int d = 0; d < dim; ++d) strip[int64_t{d} * kStripTokens + t] = encode(rotated[d]);
  }
  static QR_INLINE void get_k(const std::byte* strip, int t, int dim, float* row) {
    for (int d = 0; d < dim; ++d) row[d] = decode(strip[int64_t{d} * kStripTokens + t]);
    unrotate_key(row, dim);
  }
  static QR_INLINE void put_v(std::byte* strip, int t, int dim, const float* row) {
    for (int d = 0; d < dim; ++d) strip[int64_t{t} * dim + d] = encode(row[d]);
  }
  static QR_INLINE void get_v(const std::byte* strip, int t, int dim, float* row) {
    for (int d = 0; d < dim; ++d) row[d] = decode(strip[int64_t{t} * dim + d]);
  }
  static QR_INLINE void values_of_keys(const std::byte* keys, int d, int n, int dim, std::byte* values) {
    transpose_strip(reinterpret_cast<const uint8_t*>(keys) + int64_t{d} * kStripTokens, n,
                    reinterpret_cast<uint8_t*>(values), dim);
  }
  template <class V>
  static QR_INLINE typename V::F load_k(const std::byte* strip, int d) {
    return V::load_e4m3(strip + int64_t{d} * kStripTokens);
  }
  template <class V>
  static QR_INLINE typename V::F load_v(const std::byte* strip, int t, int dim, int d) {
    return V::load_e4m3(strip + int64_t{t} * dim + d);
  }

 private:
  static QR_INLINE std::byte encode(float x) { return static_cast<std::byte>(f32_to_e4m3(x)); }
  static QR_INLINE float decode(std::byte byte) { return e4m3_to_f32(static_cast<uint8_t>(byte)); }
};

}  // namespace quire
