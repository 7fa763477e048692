// AVX-512's instructions as functions that need AVX2 only, so that the kernels for AVX-512 can be held against the
// others on machines without it (QR_EMULATE_AVX512, docs/backend-cpu.md). Most are SIMDe's; those that it lacks are
// written out here after Intel's description of them. Included before isa/avx512/vec.h, by a flag of the compiler.
// Never in a product: slow.
#pragma once
#include <immintrin.h>
#include <simde/x86/avx512.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "quant/f16.h"

#define __m512 simde__m512
#define __m512i simde__m512i
#define __mmask16 simde__mmask16
#define __m512bh simde__m512i
#define __m256bh __m256i
#define _mm512_set1_epi32 simde_mm512_set1_epi32
#define _mm512_slli_epi32 simde_mm512_slli_epi32
#define _mm512_mask_blend_ps simde_mm512_mask_blend_ps
#define _mm512_castsi512_ps simde_mm512_castsi512_ps
#define _mm512_and_si512 simde_mm512_and_si512
#define _mm512_add_epi32 simde_mm512_add_epi32
#define _mm512_sub_ps simde_mm512_sub_ps
#define _mm512_sub_epi8 simde_mm512_sub_epi8
#define _mm512_storeu_si512 simde_mm512_storeu_si512
#define _mm512_storeu_ps simde_mm512_storeu_ps
#define _mm512_srli_epi32 simde_mm512_srli_epi32
#define _mm512_srli_epi16 simde_mm512_srli_epi16
#define _mm512_slli_epi16 simde_mm512_slli_epi16
#define _mm512_shuffle_epi8 simde_mm512_shuffle_epi8
#define _mm512_setzero_si512 simde_mm512_setzero_si512
#define _mm512_setzero_ps simde_mm512_setzero_ps
#define _mm512_set1_ps simde_mm512_set1_ps
#define _mm512_set1_epi8 simde_mm512_set1_epi8
#define _mm512_permutexvar_ps simde_mm512_permutexvar_ps
#define _mm512_permutex2var_ps simde_mm512_permutex2var_ps
#define _mm512_or_si512 simde_mm512_or_si512
#define _mm512_mul_ps simde_mm512_mul_ps
#define _mm512_min_ps simde_mm512_min_ps
#define _mm512_max_ps simde_mm512_max_ps
#define _mm512_loadu_si512 simde_mm512_loadu_si512
#define _mm512_loadu_ps simde_mm512_loadu_ps
#define _mm512_fmadd_ps simde_mm512_fmadd_ps
#define _mm512_dpbusd_epi32 simde_mm512_dpbusd_epi32
#define _mm512_div_ps simde_mm512_div_ps
#define _mm512_cmp_ps_mask simde_mm512_cmp_ps_mask
#define _mm512_maskz_mov_ps simde_mm512_maskz_mov_ps
#define _mm512_castps_si512 simde_mm512_castps_si512
#define _mm512_castps512_ps256 simde_mm512_castps512_ps256
#define _mm512_broadcast_i32x4 simde_mm512_broadcast_i32x4
#define _mm512_add_ps simde_mm512_add_ps
#define _mm512_abs_ps simde_mm512_abs_ps

namespace quire {
namespace {
namespace emulated {

// A vector as an array of its lanes.
template <class Lane, class Vector>
struct Lanes {
  static constexpr int kLanes = sizeof(Vector) / sizeof(Lane);
  Lane at[kLanes];
  explicit Lanes(Vector v) { std::memcpy(at, &v, sizeof v); }
  Lanes() = default;
  Vector vector() const {
    Vector v;
    std::memcpy(&v, at, sizeof v);
    return v;
  }
};

template <class From, class Vector>
inline __m512i widen(Vector v) {
  const Lanes<From, Vector> from(v);
  Lanes<int32_t, __m512i> to;
  for (int i = 0; i < to.kLanes; ++i) to.at[i] = from.at[i];
  return to.vector();
}

inline __m512 join(__m256 low, __m256 high) {
  Lanes<__m256, __m512> both;
  both.at[0] = low;
  both.at[1] = high;
  return both.vector();
}
inline __m256 half(__m512 v, int i) { return Lanes<__m256, __m512>(v).at[i]; }
inline __m256i half(__m512i v, int i) { return Lanes<__m256i, __m512i>(v).at[i]; }

inline __m512 convert(__m512i v) { return join(_mm256_cvtepi32_ps(half(v, 0)), _mm256_cvtepi32_ps(half(v, 1))); }
inline __m512i round(__m512 v) {
  Lanes<__m256i, __m512i> both;
  for (int i = 0; i < 2; ++i) both.at[i] = _mm256_cvtps_epi32(half(v, i));
  return both.vector();
}
inline __m512 widen_halves(__m256i v) {
  return join(_mm256_cvtph_ps(_mm256_castsi256_si128(v)), _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
}
inline __m128i low_bytes(__m512i v) {
  const Lanes<int32_t, __m512i> from(v);
  Lanes<int8_t, __m128i> to;
  for (int i = 0; i < to.kLanes; ++i) to.at[i] = static_cast<int8_t>(from.at[i]);
  return to.vector();
}
inline __m256i narrow(__m512 v) {
  const Lanes<float, __m512> from(v);
  Lanes<uint16_t, __m256i> to;
  for (int i = 0; i < to.kLanes; ++i) to.at[i] = f32_to_bf16_flushed(from.at[i]);
  return to.vector();
}
// Both fmas in the mode that the thread is in: that of FlushSubnormals.
inline __m512 dot_pairs(__m512 sum, __m512i a, __m512i b) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  Lanes<__m256, __m512> to(sum);
  for (int i = 0; i < 2; ++i) {
    const __m256i x = half(a, i), y = half(b, i);
    to.at[i] = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(x, high)),
                               _mm256_castsi256_ps(_mm256_and_si256(y, high)), to.at[i]);
    to.at[i] = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(x, 16)),
                               _mm256_castsi256_ps(_mm256_slli_epi32(y, 16)), to.at[i]);
  }
  return to.vector();
}
// Lanes whose bit is not set are not read, and not written.
inline __m512 load(__mmask16 mask, const float* p) {
  Lanes<float, __m512> to;
  for (int i = 0; i < to.kLanes; ++i) to.at[i] = (mask >> i & 1) != 0 ? p[i] : 0.0F;
  return to.vector();
}
inline void store(float* p, __mmask16 mask, __m512 v) {
  const Lanes<float, __m512> from(v);
  for (int i = 0; i < from.kLanes; ++i) {
    if ((mask >> i & 1) != 0) p[i] = from.at[i];
  }
}
inline __m512 scale(__m512 a, __m512 n) {
  Lanes<float, __m512> to(a);
  const Lanes<float, __m512> by(n);
  for (int i = 0; i < to.kLanes; ++i) {
    to.at[i] = by.at[i] == by.at[i] ? std::ldexp(to.at[i], static_cast<int>(std::floor(by.at[i]))) : by.at[i];
  }
  return to.vector();
}
inline float greatest(__m512 v) {
  Lanes<float, __m512> from(v);
  for (int n = from.kLanes / 2; n > 0; n /= 2) {
    for (int i = 0; i < n; ++i) from.at[i] = from.at[i] > from.at[n + i] ? from.at[i] : from.at[n + i];
  }
  return from.at[0];
}

}  // namespace emulated
}  // namespace
}  // namespace quire

#define _mm512_cvtneps_pbh quire::emulated::narrow
#define _mm512_dpbf16_ps quire::emulated::dot_pairs
#define _mm512_cvtepi32_ps quire::emulated::convert
#define _mm512_cvtps_epi32 quire::emulated::round
#define _mm512_cvtph_ps quire::emulated::widen_halves
#define _mm512_cvtepu8_epi32 quire::emulated::widen<uint8_t>
#define _mm512_cvtepi8_epi32 quire::emulated::widen<int8_t>
#define _mm512_cvtepu16_epi32 quire::emulated::widen<uint16_t>
#define _mm512_cvtepi32_epi8 quire::emulated::low_bytes
#define _mm512_maskz_loadu_ps quire::emulated::load
#define _mm512_mask_storeu_ps quire::emulated::store
#define _mm512_scalef_ps quire::emulated::scale
#define _mm512_reduce_max_ps quire::emulated::greatest
#define _mm512_extractf32x8_ps quire::emulated::half
