// A strip of keys, [dim][16], as a strip of values, [16][dim], where a codec has the numbers of both in the same form:
// what values that are components of their keys are read through (quant/kv_codec.h, values_of_keys). Elements of 1, 2
// or 4 bytes are moved, never looked at: those of tokens that are not stored yet may be anything.
#pragma once
#include <cstdint>
#include <cstring>

#include "quant/f16.h"
#include "quant/kv_codec.h"

namespace quire {
namespace kv_transpose_detail {

// Four rounds in which rows i and i + 8 are shuffled into 2i and 2i + 1 transpose 16 rows of 16.
template <class T>
QR_INLINE void transpose_16(const T* from, T* to, int64_t to_stride) {
  using Row [[gnu::vector_size(16 * sizeof(T))]] = T;
  Row rows[2][16];
  std::memcpy(rows[0], from, sizeof rows[0]);
  for (int round = 0; round < 4; ++round) {
    const Row* in = rows[round % 2];
    Row* out = rows[1 - round % 2];
    for (int i = 0; i < 8; ++i) {
      out[2 * i] = __builtin_shufflevector(in[i], in[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      out[2 * i + 1] =
          __builtin_shufflevector(in[i], in[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
  }
  for (int t = 0; t < kStripTokens; ++t) std::memcpy(to + t * to_stride, &rows[0][t], sizeof(Row));
}

}  // namespace kv_transpose_detail

// to[t · dim + d] = from[d · 16 + t] of n components d; n ≤ dim.
template <class T>
QR_INLINE void transpose_strip(const T* from, int n, T* to, int64_t dim) {
  int d = 0;
  for (; d + kStripTokens <= n; d += kStripTokens)
    kv_transpose_detail::transpose_16(from + int64_t{d} * kStripTokens, to + d, dim);
  for (; d < n; ++d) {
    for (int t = 0; t < kStripTokens; ++t) to[t * dim + d] = from[int64_t{d} * kStripTokens + t];
  }
}

}  // namespace quire
