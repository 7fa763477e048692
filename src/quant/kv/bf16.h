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

  static QR_INLINE void put_k(std::byte* strip, int t, int dim, const float* row) {
    constexpr int kSome = 32;  // converted side by side before pairs go where they belong
    for (int begin = 0; begin < dim; begin += kSome) {
      const int n = dim - begin < kSome ? dim - begin : kSome;
      uint16_t rounded[kSome + 1];
      for (int d = 0; d < n; ++d) rounded[d] = f32_to_bf16(row[begin + d]);
      rounded[n] = 0;
      std::byte* to = strip + (begin / 2 * kStripTokens + t) * int64_t{4};
      for (int d = 0; d < n; d += 2) std::memcpy(to + d / 2 * kStripTokens * 4, rounded + d, 4);
    }
  }
  static QR_INLINE void get_k(const std::byte* strip, int t, int dim, float* row) {
    for (int d = 0; d < dim; ++d) row[d] = bf16_to_f32(key(strip, d / 2 * 2)[2 * t + d % 2]);
  }
  static QR_INLINE void put_v(std::byte* strip, int t, int dim, const float* row) {
    auto* v = reinterpret_cast<uint16_t*>(strip) + int64_t{t / 2 * 2} * dim + t % 2;
    for (int d = 0; d < dim; ++d) v[2 * d] = f32_to_bf16(row[d]);
  }
  static QR_INLINE void get_v(const std::byte* strip, int t, int dim, float* row) {
    const uint16_t* v = value(strip, t / 2 * 2, dim, 0) + t % 2;
    for (int d = 0; d < dim; ++d) row[d] = bf16_to_f32(v[2 * d]);
  }
  static QR_INLINE const uint16_t* key(const std::byte* strip, int d) {
    return reinterpret_cast<const uint16_t*>(strip) + int64_t{d} * kStripTokens;
  }
  static QR_INLINE const uint16_t* value(const std::byte* strip, int t, int dim, int d) {
    return reinterpret_cast<const uint16_t*>(strip) + int64_t{t} * dim + 2 * d;
  }
  static QR_INLINE void values_of_keys(const std::byte* keys, int d, int n, int dim, std::byte* values) {
    int i = 0;
    for (; i + 16 <= n; i += 16) transpose_16(keys + int64_t{d + i} * 2 * kStripTokens, values + int64_t{i} * 4, dim);
    for (; i < n; ++i) {
      const uint16_t* pairs = key(keys, (d + i) / 2 * 2) + (d + i) % 2;
      for (int t = 0; t < kStripTokens; ++t) {
        const uint16_t number = pairs[2 * t];
        std::memcpy(values + (int64_t{t / 2} * dim + i) * 4 + t % 2 * 2, &number, sizeof number);
      }
    }
  }

 private:
  // 16 components of 16 keys, of which two stand side by side, as those of values, of which two do. First each pair of
  // components is taken apart, 8 pairs of tokens each; then four rounds, in which rows i and i + 8 are shuffled into 2i
  // and 2i + 1, transpose 16 rows of 8 such pairs.
  static QR_INLINE void transpose_16(const std::byte* keys, std::byte* values, int64_t dim) {
    using Pairs [[gnu::vector_size(64)]] = uint16_t;
    using Row [[gnu::vector_size(32)]] = uint32_t;
    Row rows[2][16];
    for (int i = 0; i < 8; ++i) {
      Pairs two;
      std::memcpy(&two, keys + int64_t{i} * 64, sizeof two);
      const auto first = __builtin_shufflevector(two, two, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      const auto second = __builtin_shufflevector(two, two, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
      std::memcpy(&rows[0][2 * i], &first, sizeof first);
      std::memcpy(&rows[0][2 * i + 1], &second, sizeof second);
    }
    for (int round = 0; round < 4; ++round) {
      const Row* in = rows[round % 2];
      Row* out = rows[1 - round % 2];
      for (int i = 0; i < 8; ++i) {
        out[2 * i] = __builtin_shufflevector(in[i], in[i + 8], 0, 8, 1, 9, 2, 10, 3, 11);
        out[2 * i + 1] = __builtin_shufflevector(in[i], in[i + 8], 4, 12, 5, 13, 6, 14, 7, 15);
      }
    }
    for (int pair = 0; pair < kStripTokens / 2; ++pair) {
      std::memcpy(values + pair * dim * 4, &rows[0][2 * pair], 2 * sizeof(Row));
    }
  }
};

}  // namespace quire
