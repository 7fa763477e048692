// What the vocabularies of x86 share: sums of quantised activations, by AVX2's instructions.
// Internal linkage throughout: no symbol of this file may be shared with code compiled for an older machine.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace quire {
namespace {

// Of 32 int8 the sums of the first 16 and of the others.
struct QuantSums {
  int32_t first, last;
};

inline QuantSums sums_of(__m256i q) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
  const __m256i quads = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  const __m128i some = _mm_hadd_epi32(_mm256_castsi256_si128(quads), _mm256_extracti128_si256(quads, 1));
  const __m128i both = _mm_hadd_epi32(some, some);
  return {_mm_cvtsi128_si32(both), _mm_extract_epi32(both, 1)};
}

}  // namespace
}  // namespace quire
