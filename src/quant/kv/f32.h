// KV codec f32: exact rows, for reference and for comparison with other engines.
#pragma once
#include "quant/f16.h"
#include "quant/kv_codec.h"
#include "quant/kv_transpose.h"
#include "quant/kv_unscaled.h"

namespace quire {

struct KvF32 : KvUnscaled {
  static constexpr std::string_view kName = "f32";
  static constexpr int64_t row_bytes(int dim) { return int64_t{dim} * 4; }

  static QR_INLINE void put_k(std::byte* strip, int t, int dim, const float* row) {
    auto* k = reinterpret_cast<float*>(strip);
    for (int d = 0; d < dim; ++d) k[d * kStripTokens + t] = row[d];
  }
  static QR_INLINE void get_k(const std::byte* strip, int t, int dim, float* row) {
    const auto* k = reinterpret_cast<const float*>(strip);
    for (int d = 0; d < dim; ++d) row[d] = k[d * kStripTokens + t];
  }
  static QR_INLINE void put_v(std::byte* strip, int t, int dim, const float* row) {
    std::memcpy(strip + int64_t{t} * row_bytes(dim), row, static_cast<size_t>(row_bytes(dim)));
  }
  static QR_INLINE void get_v(const std::byte* strip, int t, int dim, float* row) {
    std::memcpy(row, strip + int64_t{t} * row_bytes(dim), static_cast<size_t>(row_bytes(dim)));
  }
  static QR_INLINE void values_of_keys(const std::byte* keys, int d, int n, int dim, std::byte* values) {
    transpose_strip(reinterpret_cast<const float*>(keys) + int64_t{d} * kStripTokens, n,
                    reinterpret_cast<float*>(values), dim);
  }
  template <class V>
  static QR_INLINE typename V::F load_k(const std::byte* strip, int d) {
    return V::load(reinterpret_cast<const float*>(strip) + d * kStripTokens);
  }
  template <class V>
  static QR_INLINE typename V::F load_v(const std::byte* strip, int t, int dim, int d) {
    return V::load(reinterpret_cast<const float*>(strip) + t * dim + d);
  }
};

}  // namespace quire
