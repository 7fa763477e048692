// KV codec k8v4: keys as q8 has them, values as q4 has them. What a score loses goes through exp, what a value loses is
// averaged: so four bits are better spent on values. Three eighths of the memory of f16. docs/kv.md has what it costs.
#pragma once
#include "quant/kv/q4.h"
#include "quant/kv/q8.h"

namespace quire {

struct KvK8V4 : KvQ8 {
  static constexpr std::string_view kName = "k8v4", kKeys = KvQ8::kName, kValues = KvQ4::kName;
  static constexpr bool kRotatesValues = KvQ4::kRotatesValues;
  static constexpr bool kValuesInKeys = false;  // they lie in another form
  static constexpr int64_t k_row_bytes(int dim) { return KvQ8::row_bytes(dim); }
  static constexpr int64_t v_row_bytes(int dim) { return KvQ4::row_bytes(dim); }

  static QR_INLINE void put_v(std::byte* strip, int t, int dim, const float* row) { KvQ4::put_v(strip, t, dim, row); }
  static QR_INLINE void get_v(const std::byte* strip, int t, int dim, float* row) { KvQ4::get_v(strip, t, dim, row); }
  template <class V>
  static QR_INLINE typename V::F load_v(const std::byte* strip, int t, int dim, int d) {
    return KvQ4::load_v<V>(strip, t, dim, d);
  }
  template <class V>
  static QR_INLINE typename V::F scale_v(const std::byte* strip, typename V::F weights) {
    return KvQ4::scale_v<V>(strip, weights);
  }
};

}  // namespace quire
