// KV codec q8: a byte per component, an f32 scale per row (docs/numerics.md, "Attention"). Half the memory of f16, and
// half of what a step reads.
//   strip of keys    [16] scales, [dim][16] bytes, padding to row_bytes
//   strip of values  [16] scales, [16][dim] bytes, padding to row_bytes
// One scale for the whole row, not one for every 32 components as in Q8_0: so it multiplies a finished score, or a
// probability, once per key instead of once per block, and the products stay those of f16. Keys are rotated first
// (quant/rotation.h), and queries with them: else a key with a few very large components would lose the others.
// docs/kv.md has what it costs.
#pragma once
#include "quant/f16.h"
#include "quant/kv_codec.h"
#include "quant/kv_scaled.h"
#include "quant/kv_transpose.h"
#include "quant/rotation.h"

namespace quire {

struct KvQ8 : KvScaled {
  static constexpr std::string_view kName = "q8";
  static constexpr bool kForResearch = false;
  static constexpr bool kRotatesValues = false;
  // Whole lines of 64 bytes a strip, whatever the width.
  static constexpr int64_t row_bytes(int dim) { return (int64_t{dim} + 3) / 4 * 4 + int64_t{sizeof(float)}; }

  static QR_INLINE void put_k(std::byte* strip, int t, int dim, const float* row) {
    float rotated[kMaxRotated];
    rotate_key(row, dim, rotated);
    put(scale_at(strip, t), dim, rotated, strip + kScales + t, kStripTokens);
  }
  static QR_INLINE void get_k(const std::byte* strip, int t, int dim, float* row) {
    get(scale_at(strip, t), dim, row, strip + kScales + t, kStripTokens);
    unrotate_key(row, dim);
  }
  static QR_INLINE void put_v(std::byte* strip, int t, int dim, const float* row) {
    put(scale_at(strip, t), dim, row, strip + kScales + int64_t{t} * dim, 1);
  }
  static QR_INLINE void get_v(const std::byte* strip, int t, int dim, float* row) {
    get(scale_at(strip, t), dim, row, strip + kScales + int64_t{t} * dim, 1);
  }
  static QR_INLINE void values_of_keys(const std::byte* keys, int d, int n, int dim, std::byte* values) {
    transpose_strip(reinterpret_cast<const uint8_t*>(keys + kScales) + int64_t{d} * kStripTokens, n,
                    reinterpret_cast<uint8_t*>(values + kScales), dim);
  }
  template <class V>
  static QR_INLINE typename V::F load_k(const std::byte* strip, int d) {
    return V::load_i8(strip + kScales + int64_t{d} * kStripTokens);
  }
  template <class V>
  static QR_INLINE typename V::F load_v(const std::byte* strip, int t, int dim, int d) {
    return V::load_i8(strip + kScales + int64_t{t} * dim + d);
  }

 private:
  // Component d goes to at[d · apart].
  static QR_INLINE void put(std::byte* scale, int dim, const float* row, std::byte* at, int64_t apart) {
    const float largest = largest_of(row, dim);
    const bool finite = is_finite(largest);
    const float amax = finite ? largest : nan();
    const float inverse = amax >= kSmallest ? 127.0F / amax : 0.0F;
    store_as(scale, amax < kSmallest ? 0.0F : amax / 127.0F);
    for (int d = 0; d < dim; ++d) {
      const float x = finite ? row[d] : 0.0F;
      at[d * apart] = static_cast<std::byte>(std::bit_cast<uint32_t>(x * inverse + kMagic));
    }
  }
  static QR_INLINE void get(const std::byte* scale, int dim, float* row, const std::byte* at, int64_t apart) {
    const auto step = load_as<float>(scale);
    for (int d = 0; d < dim; ++d) row[d] = step * static_cast<float>(static_cast<int8_t>(at[d * apart]));
  }
};

}  // namespace quire
