// A fixed rotation of a head's components: signs, then a Hadamard transform over each run of 2^n components, where 2^n
// is the largest power of two that divides the width. A query and a key that are both rotated have the product that
// they had, but a component that is far larger than the others is spread over its run, so one scale a row suffices
// where a few components (biases of some models) would leave nothing for the rest. The signs, drawn once, keep a row of
// equal components from becoming one. Every step is one rounded addition or subtraction of each component, in the same
// order for every instruction set. Source: QuaRot (Ashkboos et al., 2024), there with learned placements.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

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

// As many components side by side as a register of what this is compiled for holds. A run that is shorter is
// transformed one by one.
#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
using Lanes [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using Bits [[gnu::vector_size(kLanes * sizeof(uint32_t))]] = uint32_t;

template <class Out, class F, int... kLane>
QR_INLINE Out lanes_of(F of, std::integer_sequence<int, kLane...> /*lanes*/) {
  return Out{of(kLane)...};
}
using AllLanes = std::make_integer_sequence<int, kLanes>;

QR_INLINE Lanes load(const float* x) {
  Lanes out;
  std::memcpy(&out, x, sizeof out);
  return out;
}
QR_INLINE void store(float* x, Lanes v) { std::memcpy(x, &v, sizeof v); }

// with_sign of the components from d on, a multiple of kLanes.
QR_INLINE Lanes with_signs(Lanes x, int d) {
  const Bits bit = lanes_of<Bits>([](int lane) { return 1U << lane; }, AllLanes());
  const Bits flip = ((Bits{} + (kSigns[d / 32] >> (d % 32))) & bit) != 0U;
  return std::bit_cast<Lanes>(std::bit_cast<Bits>(x) ^ (flip & 0x80000000U));
}

// The round of lanes kHalf apart: a + b, and a − b as −1 · b + a, which is exact but for the addition.
template <int kHalf, int... kLane>
QR_INLINE Lanes round_within(Lanes x, std::integer_sequence<int, kLane...> lanes) {
  const Lanes signs = lanes_of<Lanes>([](int lane) { return (lane & kHalf) != 0 ? -1.0F : 1.0F; }, lanes);
  return x * signs + __builtin_shufflevector(x, x, (kLane ^ kHalf)...);
}
template <int kHalf = 1>
QR_INLINE Lanes rounds_within(Lanes x) {
  if constexpr (kHalf == kLanes) {
    return x;
  } else {
    return rounds_within<2 * kHalf>(round_within<kHalf>(x, AllLanes()));
  }
}

// All rounds of N · kLanes components that `take` gives, in registers.
template <int N, class Take>
QR_INLINE void hadamard_of(float* out, const Take& take) {
  Lanes v[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) v[i] = rounds_within(take(i * kLanes));
#pragma GCC unroll 8
  for (int half = 1; half < N; half *= 2) {
#pragma GCC unroll 8
    for (int pair = 0; pair < N / 2; ++pair) {
      const int i = pair / half * 2 * half + pair % half;
      const Lanes a = v[i];
      const Lanes b = v[i + half];
      v[i] = a + b;
      v[i + half] = a - b;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) store(out + i * kLanes, v[i]);
}

// Rounds from `half` on of a run.
QR_INLINE void hadamard_from(int half, float* x, int run) {
  for (; half < run; half *= 2) {
    for (int begin = 0; begin < run; begin += 2 * half) {
      for (int d = begin; d < begin + half; ++d) {
        const float a = x[d];
        const float b = x[d + half];
        x[d] = a + b;
        x[d + half] = a - b;
      }
    }
  }
}

// The transform of each run of out, of components that `take` gives kLanes of, or `take_one` where a run is shorter.
// These may read where is written: nothing is written before it was taken.
template <class Take, class TakeOne>
QR_INLINE void hadamard(float* out, int dim, const Take& take, const TakeOne& take_one) {
  const int run = run_of(dim);
  if (run < kLanes) {
    for (int d = 0; d < dim; ++d) out[d] = take_one(d);
    for (int begin = 0; begin < dim; begin += run) hadamard_from(1, out + begin, run);
    return;
  }
  const int together = run < 8 * kLanes ? run : 8 * kLanes;
  for (int d = 0; d < dim; d += together) {
    const auto from = [&](int i) __attribute__((always_inline)) { return take(d + i); };
    if (together == kLanes) hadamard_of<1>(out + d, from);
    if (together == 2 * kLanes) hadamard_of<2>(out + d, from);
    if (together == 4 * kLanes) hadamard_of<4>(out + d, from);
    if (together == 8 * kLanes) hadamard_of<8>(out + d, from);
  }
  for (int begin = 0; together < run && begin < dim; begin += run) hadamard_from(together, out + begin, run);
}
QR_INLINE void hadamard(float* x, int dim) {
  hadamard(
      x, dim, [&](int d) __attribute__((always_inline)) { return load(x + d); },
      [&](int d) __attribute__((always_inline)) { return x[d]; });
}
}  // namespace rotation_detail

// The rotation, longer by the square root of the run. REQUIRES 1 ≤ dim ≤ kMaxRotated; x and out may be the same.
QR_INLINE void rotate_query(const float* x, int dim, float* out) {
  rotation_detail::hadamard(
      out, dim,
      [&](int d)
          __attribute__((always_inline)) { return rotation_detail::with_signs(rotation_detail::load(x + d), d); },
      [&](int d) __attribute__((always_inline)) { return rotation_detail::with_sign(x[d], d); });
}

// The rotation, shorter by as much: products with rotate_query's are those of what was rotated.
QR_INLINE void rotate_key(const float* x, int dim, float* out) {
  const float part = 1.0F / static_cast<float>(rotation_detail::run_of(dim));  // a power of two: exact
  rotation_detail::hadamard(
      out, dim,
      [&](int d) __attribute__((always_inline)) {
        return rotation_detail::with_signs(rotation_detail::load(x + d) * part, d);
      },
      [&](int d) __attribute__((always_inline)) { return rotation_detail::with_sign(x[d] * part, d); });
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
