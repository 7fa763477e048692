// KV codec f16: half precision rows, the default but for BF16 weights (docs/kv.md).
#pragma once
#include "quant/f16.h"
#include "quant/kv_codec.h"
#include "quant/kv_transpose.h"
#include "quant/kv_unscaled.h"

namespace quire {

struct KvF16 : KvUnscaled {
  static constexpr std::string_view kName = "f16";
  static constexpr int64_t row_bytes(int dim) { return int64_t{dim} * 2; }

  static QR_INLINE void put_k(std::byte* strip, int t, int dim, const float* row) {
    auto* k = reinterpret_cast<uint16_t*>(strip);
    for (int d = 0; d < dim; ++d) k[d * kStripTokens + t] = f32_to_f16(row[d]);
  }
  static QR_INLINE void get_k(const std::byte* strip, int t, int dim, float* row) {
    const auto* k = reinterpret_cast<const uint16_t*>(strip);
    for (int d = 0; d < dim; ++d) row[d] = f16_to_f32(k[d * kStripTokens + t]);
  }
  static QR_INLINE void put_v(std::byte* strip, int t, int dim, const float* row) {
    auto* v = reinterpret_cast<uint16_t*>(strip) + t * dim;
    for (int d = 0; d < dim; ++d) v[d] = f32_to_f16(row[d]);
  }
  static QR_INLINE void get_v(const std::byte* strip, int t, int dim, float* row) {
    const auto* v = reinterpret_cast<const uint16_t*>(strip) + t * dim;
    for (int d = 0; d < dim; ++d) row[d] = f16_to_f32(v[d]);
  }
  static QR_INLINE void values_of_keys(const std::byte* keys, int d, int n, int dim, std::byte* values) {
    transpose_strip(reinterpret_cast<const uint16_t*>(keys) + int64_t{d} * kStripTokens, n,
                    reinterpret_cast<uint16_t*>(values), dim);
  }
  template <class V>
  static QR_INLINE typename V::F load_k(const std::byte* strip, int d) {
    return V::load_f16(reinterpret_cast<const uint16_t*>(strip) + d * kStripTokens);
  }
  template <class V>
  static QR_INLINE typename V::F load_v(const std::byte* strip, int t, int dim, int d) {
    return V::load_f16(reinterpret_cast<const uint16_t*>(strip) + t * dim + d);
  }
};

}  // namespace quire
