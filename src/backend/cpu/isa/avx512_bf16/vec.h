// The vector vocabulary on AVX-512 with products of BF16.
#pragma once
#include "backend/cpu/isa/avx512/lanes.h"

namespace quire {
namespace {

struct Vec : Avx512Lanes {
  static constexpr int kBf16PerFloat = 2;
  static void store_bf16(float* p, F v) {
    const __m256bh rounded = _mm512_cvtneps_pbh(v);
    __builtin_memcpy(p, &rounded, sizeof rounded);
  }
  // acc + w · x of two BF16 numbers in each lane: fma of the odd ones, then of the even ones, each rounded to nearest
  // even; what is below the least normal number counts as zero, before and behind.
  static F dot_bf16(U w, F x, F acc) { return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x); }
};

}  // namespace
}  // namespace quire
