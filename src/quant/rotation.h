// A fixed rotation of a head's components: signs, then a Hadamard transform over each run of 2^n components, where 2^n
// is the largest power of two that divides the width. A query and a key that are both rotated have the product that
// they had, but a component that is far larger than the others is spread over its run, so one scale a row suffices
// where a few components (biases of some models) would leave nothing for the rest. The signs, drawn once, keep a row of
// equal components from becoming one. Every step is one rounded addition or subtraction of each component, in the same
// order for every instruction set. Source: QuaRot (Ashkboos et al., 2024), there with learned placements.
#pragma once
#include <bit>
#include <cstdint>

#include "quant/f16.h"

namespace quire {

inline constexpr int kMaxRotated = 1024;  // components of a head, at most

namespace rotation_detail {
// Not inline: what is compiled for one instruction set exports nothing that others could take.
constexpr uint32_t kSigns[kMaxRotated / 32] = {
    0xa3c59ac2, 0x1b873593, 0xe6546b64, 0x4cf5ad43, 0x2745937f, 0xc2b2ae35, 0x85ebca6b, 0x38b34ae5,
    0xab0e9789, 0x9e3779b9, 0x7f4a7c15, 0xbf58476d, 0x1ce4e5b9, 0x94d049bb, 0x133111eb, 0xd6e8feb8,
    0x6659fd93, 0x5851f42d, 0x4c957f2d, 0x14057b7e, 0xf767814f, 0x2127599b, 0xf4325c37, 0x880355f2,
    0x1e6d1765, 0x60bee2be, 0xe120fc15, 0xa3b19535, 0x4a39b70d, 0x12fad5c9, 0xa0761d64, 0x78bd642f};

QR_INLINE float with_sign(float x, int d) {
  const uint32_t flip = (kSigns[d / 32] >> (d % 32) & 1U) << 31;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ flip);
}

QR_INLINE constexpr int run_of(int dim) { return dim & -dim; }

QR_INLINE void hadamard(float* x, int dim) {
  const int run = run_of(dim);
  for (int half = 1; half < run; half *= 2) {
    for (int begin = 0; begin < dim; begin += 2 * half) {
      for (int d = begin; d < begin + half; ++d) {
        const float a = x[d];
        const float b = x[d + half];
        x[d] = a + b;
        x[d + half] = a - b;
      }
    }
  }
}
}  // namespace rotation_detail

// The rotation, longer by the square root of the run. REQUIRES 1 ≤ dim ≤ kMaxRotated; x and out may be the same.
QR_INLINE void rotate_query(const float* x, int dim, float* out) {
  for (int d = 0; d < dim; ++d) out[d] = rotation_detail::with_sign(x[d], d);
  rotation_detail::hadamard(out, dim);
}

// The rotation, shorter by as much: products with rotate_query's are those of what was rotated.
QR_INLINE void rotate_key(const float* x, int dim, float* out) {
  const float part = 1.0F / static_cast<float>(rotation_detail::run_of(dim));  // a power of two: exact
  for (int d = 0; d < dim; ++d) out[d] = rotation_detail::with_sign(x[d] * part, d);
  rotation_detail::hadamard(out, dim);
}

// Whether rotation keeps the last n components of a key of `dim` apart from those before them.
QR_INLINE constexpr bool rotates_last_apart(int dim, int n) { return (dim - n) % rotation_detail::run_of(dim) == 0; }

// Undoes what rotate_key made of the last n components of a key of `dim`, in place. REQUIRES rotates_last_apart.
QR_INLINE void unrotate_last(float* x, int dim, int n) {
  const int run = rotation_detail::run_of(dim);
  for (int begin = 0; begin < n; begin += run) rotation_detail::hadamard(x + begin, run);
  for (int d = 0; d < n; ++d) x[d] = rotation_detail::with_sign(x[d], dim - n + d);
}

// Undoes rotate_key, in place.
QR_INLINE void unrotate_key(float* x, int dim) {
  rotation_detail::hadamard(x, dim);
  for (int d = 0; d < dim; ++d) x[d] = rotation_detail::with_sign(x[d], d);
}

}  // namespace quire
