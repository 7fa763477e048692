// Floats side by side for the search for scales, as compilers' own vectors: four, which every instruction set that we
// compile for has registers for, or eight or sixteen where a file is compiled for AVX2 or AVX-512.
#pragma once
#include <cstring>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "quant/f16.h"

namespace quire::search {

// Written out, since g++ leaves loops over the lanes of an array as they are.
using Four = float __attribute__((vector_size(16)));
using Eight = float __attribute__((vector_size(32)));
using Sixteen = float __attribute__((vector_size(64)));

template <int kLanes>
struct LanesOf;
template <>
struct LanesOf<4> {
  using Type = Four;
  using Doubles = double __attribute__((vector_size(32)));
  static constexpr Four kSteps = {0, 1, 2, 3};
};
template <>
struct LanesOf<8> {
  using Type = Eight;
  using Doubles = double __attribute__((vector_size(64)));
  static constexpr Eight kSteps = {0, 1, 2, 3, 4, 5, 6, 7};
};
template <>
struct LanesOf<16> {
  using Type = Sixteen;
  using Doubles = double __attribute__((vector_size(128)));
  static constexpr Sixteen kSteps = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};
inline constexpr Four kSteps = LanesOf<4>::kSteps;

template <class V>
QR_INLINE V load_lanes(const float* from) {
  V out;
  std::memcpy(&out, from, sizeof out);
  return out;
}
// a > b ? a : b and a < b ? a : b of each lane, which g++ 12 makes no instruction of.
QR_INLINE Four larger(Four a, Four b) {
#ifdef __SSE__
  return __builtin_ia32_maxps(a, b);
#else
  return a > b ? a : b;
#endif
}
QR_INLINE Four smaller(Four a, Four b) {
#ifdef __SSE__
  return __builtin_ia32_minps(a, b);
#else
  return a < b ? a : b;
#endif
}
#ifdef __AVX2__
QR_INLINE Eight larger(Eight a, Eight b) { return _mm256_max_ps(a, b); }
QR_INLINE Eight smaller(Eight a, Eight b) { return _mm256_min_ps(a, b); }
#endif
#ifdef __AVX512F__
QR_INLINE Sixteen larger(Sixteen a, Sixteen b) { return _mm512_max_ps(a, b); }
QR_INLINE Sixteen smaller(Sixteen a, Sixteen b) { return _mm512_min_ps(a, b); }
#endif

// The first of n lanes that holds less than all before it and than `least`, which becomes what it holds; -1: none.
template <class D>
QR_INLINE int least_of(const D& lanes, int n, double& least) {
  int out = -1;
  for (int lane = 0; lane < n; ++lane) {
    const bool less = lanes[lane] < least;
    out = less ? lane : out;
    least = less ? lanes[lane] : least;
  }
  return out;
}

}  // namespace quire::search
