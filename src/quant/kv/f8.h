// KV codec f8: a byte per component, the float e4m3 (one sign, four bits of exponent, three of mantissa, no infinity;
// OCP 8-bit floating point). Half the memory of f16, without scales. Rounded to nearest even; what is beyond 448
// becomes 448, what is not a finite number becomes NaN. Keys are rotated first (quant/rotation.h): large components of
// a few models' keys would leave the range. docs/kv.md has what it costs.
#pragma once
#include "quant/f16.h"
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

  static QR_INLINE void put_k(std::byte* group, int t, int dim, const float* row) {
    float rotated[kMaxRotated];
    rotate_key(row, dim, rotated);
    for (int d = 0; d < dim; ++d) group[int64_t{d} * kKvGroup + t] = encode(rotated[d]);
  }
  static QR_INLINE void get_k(const std::byte* group, int t, int dim, float* row) {
    for (int d = 0; d < dim; ++d) row[d] = decode(group[int64_t{d} * kKvGroup + t]);
    unrotate_key(row, dim);
  }
  static QR_INLINE void put_v(std::byte* group, int t, int dim, const float* row) {
    for (int d = 0; d < dim; ++d) group[int64_t{t} * dim + d] = encode(row[d]);
  }
  static QR_INLINE void get_v(const std::byte* group, int t, int dim, float* row) {
    for (int d = 0; d < dim; ++d) row[d] = decode(group[int64_t{t} * dim + d]);
  }
  static QR_INLINE void values_of_keys(const std::byte* keys, int d, int n, int dim, std::byte* values) {
    turn_group(reinterpret_cast<const uint8_t*>(keys) + int64_t{d} * kKvGroup, n, reinterpret_cast<uint8_t*>(values),
               dim);
  }
  template <class V>
  static QR_INLINE typename V::F load_k(const std::byte* group, int d) {
    return V::load_e4m3(group + int64_t{d} * kKvGroup);
  }
  template <class V>
  static QR_INLINE typename V::F load_v(const std::byte* group, int t, int dim, int d) {
    return V::load_e4m3(group + int64_t{t} * dim + d);
  }

 private:
  static QR_INLINE std::byte encode(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    const uint32_t magnitude = bits & 0x7fffffffU;
    const uint32_t most = std::bit_cast<uint32_t>(448.0F);
    const uint32_t kept = magnitude < most ? magnitude : most;
    // Below 2^-6 numbers are multiples of 2^-9, the distance of floats from 2^14 on.
    const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(kept) + 0x1p14F) & 0xffU;
    const uint32_t normal = ((kept + 0x7ffffU + (kept >> 20 & 1U)) >> 20) - (120U << 3);
    uint32_t code = kept < std::bit_cast<uint32_t>(0x1p-6F) ? small : normal;
    code = magnitude < 0x7f800000U ? code : 0x7fU;
    return static_cast<std::byte>(code | (bits >> 24 & 0x80U));
  }
  static QR_INLINE float decode(std::byte byte) { return e4m3_to_f32(static_cast<uint8_t>(byte)); }
};

}  // namespace quire
