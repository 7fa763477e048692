// The vector vocabulary on AVX-512 (F, BW, VL, DQ, VNNI). What the names mean is said in docs/backend-cpu.md. Every
// operation is exact or correctly rounded, so all instruction sets give the same bits.
// Internal linkage throughout: no symbol of this file may be shared with code compiled for an older machine.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "backend/cpu/isa/sums.h"

namespace quire {
namespace {

struct Avx512Lanes {
  using F = __m512;   // 16 floats
  using I = __m512i;  // 16 int32
  using U = __m512i;  // 64 bytes: 16 lanes of 4

  static constexpr int kTilePanels = 2, kTileRows = 4;  // register tile of linear
  static constexpr int kFloatTileRows = 12;             // rows of a tile of float weights
  static constexpr int kFewPanels = kTilePanels;        // of a tile of one or two rows
  static constexpr int kChains = 10;                    // independent sums that the probes of the units keep going
  static constexpr int kAttentionRows = 16;             // that attention sums at once
  static constexpr int kSideBySide = 4;                 // long chains of operations that are taken at once
  static constexpr int kAttentionSums = 8;              // that it has in flight at least, where there are fewer rows
  static constexpr bool kPrefetches = true;             // whether kernels ask for what they read soon

  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float v) { return _mm512_set1_ps(v); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F load_n(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static void store_n(float* p, F v, int n) { _mm512_mask_storeu_ps(p, first(n), v); }
  // Numbers 2 · i to lane i of the first, 2 · i + 1 to that of the second; and back.
  static void load_pairs(const float* p, F* two) {
    two[0] = _mm512_permutex2var_ps(load(p), indices(kEven), load(p + 16));
    two[1] = _mm512_permutex2var_ps(load(p), indices(kOdd), load(p + 16));
  }
  static void store_pairs(float* p, const F* two) {
    store(p, _mm512_permutex2var_ps(two[0], indices(kLow), two[1]));
    store(p + 16, _mm512_permutex2var_ps(two[0], indices(kHigh), two[1]));
  }
  static F load_f16(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_bf16(const uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  static void load_bf16_pairs(const uint16_t* p, F* two) {
    const __m512i both = _mm512_loadu_si512(p);
    two[0] = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    two[1] = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
  }
  // How many numbers stand in a float's place where they are rounded to BF16 for products; 16 of them, to nearest even,
  // zeros of their sign for those below the least normal one.
  static constexpr int kBf16PerFloat = 1;
  static void store_bf16(float* p, F v) {
    v = select_lt(abs(v), set1(0x1p-126F), mul(v, zero()), v);
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i near = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    store(p, _mm512_mask_blend_ps(nan, _mm512_castsi512_ps(_mm512_and_si512(near, high)),
                                  _mm512_castsi512_ps(_mm512_and_si512(quiet, high))));
  }

  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }  // a > b ? a : b
  static F min(F a, F b) { return _mm512_min_ps(a, b); }  // a < b ? a : b
  static F abs(F a) { return _mm512_abs_ps(a); }
  static F select_lt(F x, F bound, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, bound, _CMP_LT_OQ), no, yes);
  }
  // Lanes lo ≤ i < hi of a, the others of b; lo and hi may lie outside 0 … 16.
  static F inside(int lo, int hi, F a, F b) {
    return _mm512_mask_blend_ps(static_cast<__mmask16>(first(hi) & ~first(lo)), b, a);
  }
  static F zero_if_lt(F x, F bound, F a) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, bound, _CMP_NLT_UQ), a); }
  // a · 2^n, for whole n in [−126, 127] where neither is subnormal; t is n + 1.5·2^23.
  static F times_exp2(F a, F n, F /*t*/) { return _mm512_scalef_ps(a, n); }
  static float sum(F v) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  static float max_of(F v) { return _mm512_reduce_max_ps(v); }

  static U load_bytes(const std::byte* p) { return _mm512_loadu_si512(p); }
  static void store_bytes(std::byte* p, U v) { _mm512_storeu_si512(p, v); }
  template <int kValue>
  static U minus(U x) {  // each byte, modulo 256
    return _mm512_sub_epi8(x, _mm512_set1_epi8(static_cast<char>(kValue)));
  }
  // Exact dot products of weight bytes, at most kMax, with the zero at kZero, and activations in [−127, 127], quad
  // after quad. start and total are both told the sum of the activations: one of them takes kZero times it away.
  template <int kZero, int kMax>
  struct Dot {
    void start(int32_t activation_sum) { sum = _mm512_set1_epi32(-kZero * activation_sum); }
    template <int kQuad, int kQuads>
    void add(U weights, int32_t quad) {
      sum = _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(quad));
    }
    I total(int32_t /*activation_sum*/) const { return sum; }

   private:
    I sum;
  };
  // Each byte's (x >> kShift) & kMask, to the left where kShift is negative. The shift is one of 16-bit words: kMask
  // must not take in bits that come from the neighbour.
  template <int kShift, int kMask>
  static U bits(U x) {
    if constexpr (kShift > 0) x = _mm512_srli_epi16(x, kShift);
    if constexpr (kShift < 0) x = _mm512_slli_epi16(x, -kShift);
    return _mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(kMask)));
  }
  static U either(U a, U b) { return _mm512_or_si512(a, b); }
  // Byte number i < 16 of the two words, for each byte i of x.
  template <uint64_t kLowWord, uint64_t kHighWord>
  static U look_up(U x) {
    const __m128i table = _mm_set_epi64x(static_cast<int64_t>(kHighWord), static_cast<int64_t>(kLowWord));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), x);
  }
  static F load_i8(const std::byte* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static F load_e4m3(const std::byte* p) {  // see e4m3_to_f32
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m256i shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7);  // the sign twice
    const __m256i half = _mm256_and_si256(shifted, _mm256_set1_epi16(static_cast<int16_t>(0xbfff)));
    const __m512 value = _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0F));
    const __m128i all_ones = _mm_cmpeq_epi8(_mm_or_si128(bytes, _mm_set1_epi8(-128)), _mm_set1_epi8(-1));
    const __m512i nan = _mm512_or_si512(_mm512_castps_si512(value), _mm512_set1_epi32(0x7fffe000));
    return _mm512_mask_blend_ps(static_cast<__mmask16>(_mm_movemask_epi8(all_ones)), value, _mm512_castsi512_ps(nan));
  }
  template <int kShift>
  static F load_nibbles(const std::byte* p) {  // (16 bytes >> kShift) & 15
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(wide, kShift), _mm512_set1_epi32(15)));
  }
  template <int kShift>
  static F load_centred_nibbles(const std::byte* p) {  // ((16 bytes >> kShift) & 15) − 8
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    static constexpr float kCentred[] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return _mm512_permutexvar_ps(_mm512_srli_epi32(wide, kShift), _mm512_loadu_ps(kCentred));  // four bits of an index
  }
  static F to_float(I v) { return _mm512_cvtepi32_ps(v); }
  static bool has_nan(F v) { return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) != 0; }
  // Rounds 32 floats in [−127, 127] to nearest even and stores them; the sums of the first 16 and of the others.
  using Sums = QuantSums;
  static Sums round_store(F low, F high, int8_t* to) {
    const __m256i q =
        _mm256_set_m128i(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(high)), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(low)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), q);
    return sums_of(q);
  }

 private:
  // Which of 32 lanes, the second vector's behind the first's.
  static constexpr int32_t kEven[] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  static constexpr int32_t kOdd[] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
  static constexpr int32_t kLow[] = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  static constexpr int32_t kHigh[] = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  static __m512i indices(const int32_t (&of)[16]) { return _mm512_loadu_si512(of); }
  static __mmask16 first(int n) { return static_cast<__mmask16>(n <= 0 ? 0U : n >= 16 ? 0xffffU : (1U << n) - 1); }
};

}  // namespace
}  // namespace quire
