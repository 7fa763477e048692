// KV codec bf16: rows of bfloat16, which are multiplied as BF16 (docs/numerics.md, "Attention"): at twice the rate of
// f16's where the CPU has VDPBF16PS, whose pairs lie side by side. Of keys two components, [dim / 2][16][2], of values
// two tokens, [8][dim][2]. Beyond an odd number of components stands a zero.
#pragma once
#include "quant/f16.h"
#include "quant/kv_codec.h"
#include "quant/kv_unscaled.h"

namespace quire {

struct KvBF16 : KvUnscaled {
  static constexpr std::string_view kName = "bf16";
  static constexpr int kTogether = 2;
  static constexpr int64_t row_bytes(int dim) { return (int64_t{dim} + 1) / 2 * 4; }

  static QR_INLINE void put_k(std::byte* group, int t, int dim, const float* row) {
    constexpr int kSome = 32;  // converted side by side before pairs go where they belong
    for (int begin = 0; begin < dim; begin += kSome) {
      const int n = dim - begin < kSome ? dim - begin : kSome;
      uint16_t rounded[kSome + 1];
      for (int d = 0; d < n; ++d) rounded[d] = f32_to_bf16(row[begin + d]);
      rounded[n] = 0;
      std::byte* to = group + (begin / 2 * kKvGroup + t) * int64_t{4};
      for (int d = 0; d < n; d += 2) std::memcpy(to + d / 2 * kKvGroup * 4, rounded + d, 4);
    }
  }
  static QR_INLINE void get_k(const std::byte* group, int t, int dim, float* row) {
    for (int d = 0; d < dim; ++d) row[d] = bf16_to_f32(key(group, d / 2 * 2)[2 * t + d % 2]);
  }
  static QR_INLINE void put_v(std::byte* group, int t, int dim, const float* row) {
    auto* v = reinterpret_cast<uint16_t*>(group) + int64_t{t / 2 * 2} * dim + t % 2;
    for (int d = 0; d < dim; ++d) v[2 * d] = f32_to_bf16(row[d]);
  }
  static QR_INLINE void get_v(const std::byte* group, int t, int dim, float* row) {
    const uint16_t* v = value(group, t / 2 * 2, dim, 0) + t % 2;
    for (int d = 0; d < dim; ++d) row[d] = bf16_to_f32(v[2 * d]);
  }
  static QR_INLINE const uint16_t* key(const std::byte* group, int d) {
    return reinterpret_cast<const uint16_t*>(group) + int64_t{d} * kKvGroup;
  }
  static QR_INLINE const uint16_t* value(const std::byte* group, int t, int dim, int d) {
    return reinterpret_cast<const uint16_t*>(group) + int64_t{t} * dim + 2 * d;
  }
  static QR_INLINE void values_of_keys(const std::byte* keys, int d, int n, int dim, std::byte* values) {
    constexpr int kPairs = kKvGroup / 2;
    const std::byte* from = keys + int64_t{d} / 2 * kKvGroup * 4;
    for (int i = 0; i < n; i += 2, from += kKvGroup * 4) {
      uint32_t pairs[kKvGroup];
      std::memcpy(pairs, from, sizeof pairs);
      for (int t = 0; t < kPairs; ++t) {
        const uint32_t one = pairs[2 * t], next = pairs[2 * t + 1];
        const uint32_t two[2] = {(one & 0xffffU) | next << 16, one >> 16 | (next & 0xffff0000U)};
        std::memcpy(values + (int64_t{t} * dim + i) * 4, two, i + 1 < n ? 8 : 4);
      }
    }
  }
};

}  // namespace quire
