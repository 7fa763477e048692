// The vector vocabulary on AVX2 + FMA + F16C: 16 lanes are two registers. See isa/avx512/vec.h.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "backend/cpu/isa/sums.h"

namespace quire {
namespace {

struct Vec {
  struct F {
    __m256 a, b;
  };
  struct I {
    __m256i a, b;
  };
  using U = I;  // 64 bytes: 16 lanes of 4

  static constexpr int kTilePanels = 1, kTileRows = 4;  // register tile of linear
  static constexpr int kFloatTileRows = kTileRows;
  static constexpr int kFewPanels = 2;
  static constexpr bool kPrefetches = true;  // whether kernels ask for what they read soon
  static constexpr int kChains = 5;
  static constexpr int kAttentionRows = 4;
  static constexpr int kSideBySide = 1;
  static constexpr int kAttentionSums = 4;

  static F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static F set1(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
  static F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static F load_n(const float* p, int n) {
    return {_mm256_maskload_ps(p, first(n)), n > 8 ? _mm256_maskload_ps(p + 8, first(n - 8)) : _mm256_setzero_ps()};
  }
  static void store(float* p, F v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
  }
  static void store_n(float* p, F v, int n) {
    if (n >= 16) return store(p, v);  // a masked store takes a dozen cycles
    _mm256_maskstore_ps(p, first(n), v.a);
    if (n > 8) _mm256_maskstore_ps(p + 8, first(n - 8), v.b);
  }
  static F load_f16(const uint16_t* p) {
    const auto* from = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(from)), _mm256_cvtph_ps(_mm_loadu_si128(from + 1))};
  }
  static F load_bf16(const uint16_t* p) {
    const auto* from = reinterpret_cast<const __m128i*>(p);
    const __m256i a = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(from)), 16);
    const __m256i b = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(from + 1)), 16);
    return {_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)};
  }
  static void load_pairs(const float* p, F* two) {
    const F low = load(p), high = load(p + 16);
    two[0] = {in_order<0x88>(low.a, low.b), in_order<0x88>(high.a, high.b)};
    two[1] = {in_order<0xDD>(low.a, low.b), in_order<0xDD>(high.a, high.b)};
  }
  static void store_pairs(float* p, const F* two) {
    store(p, interleaved(two[0].a, two[1].a));
    store(p + 16, interleaved(two[0].b, two[1].b));
  }
  static void load_bf16_pairs(const uint16_t* p, F* two) {
    const auto* from = reinterpret_cast<const __m256i*>(p);
    const __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    two[0] = {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
    two[1] = {_mm256_castsi256_ps(_mm256_and_si256(a, high)), _mm256_castsi256_ps(_mm256_and_si256(b, high))};
  }
  static constexpr int kBf16PerFloat = 1;
  static void store_bf16(float* p, F v) {
    v = select_lt(abs(v), set1(0x1p-126F), mul(v, zero()), v);
    store(p, {rounded_to_bf16(v.a), rounded_to_bf16(v.b)});
  }

  static F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  static F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  static F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  static F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static F fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
  static F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static F abs(F x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
  }
  static F select_lt(F x, F bound, F yes, F no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, bound.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, bound.b, _CMP_LT_OQ))};
  }
  static F inside(int lo, int hi, F x, F y) {
    const __m256i in_a = _mm256_andnot_si256(first(lo), first(hi));
    const __m256i in_b = _mm256_andnot_si256(first(lo - 8), first(hi - 8));
    return {_mm256_blendv_ps(y.a, x.a, _mm256_castsi256_ps(in_a)),
            _mm256_blendv_ps(y.b, x.b, _mm256_castsi256_ps(in_b))};
  }
  static F zero_if_lt(F x, F bound, F y) {
    return {_mm256_andnot_ps(_mm256_cmp_ps(x.a, bound.a, _CMP_LT_OQ), y.a),
            _mm256_andnot_ps(_mm256_cmp_ps(x.b, bound.b, _CMP_LT_OQ), y.b)};
  }
  static F times_exp2(F x, F /*n*/, F t) {
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(t.a), bias), 23);
    const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(t.b), bias), 23);
    return mul(x, {_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)});
  }
  static float sum(F v) {
    const __m256 a = _mm256_add_ps(v.a, v.b);
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  static float max_of(F v) {
    const __m256 a = _mm256_max_ps(v.a, v.b);
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }

  static U load_bytes(const std::byte* p) {
    const auto* from = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
  }
  template <int kShift, int kMask>
  static U bits(U x) {
    return {bits_of<kShift, kMask>(x.a), bits_of<kShift, kMask>(x.b)};
  }
  static U either(U x, U y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
  template <uint64_t kLowWord, uint64_t kHighWord>
  static U look_up(U x) {
    const __m128i words = _mm_set_epi64x(static_cast<int64_t>(kHighWord), static_cast<int64_t>(kLowWord));
    const __m256i table = _mm256_broadcastsi128_si256(words);
    return {_mm256_shuffle_epi8(table, x.a), _mm256_shuffle_epi8(table, x.b)};
  }

  // maddubs leaves sums of two products in 16 bits. Those of narrow weights have room for kFit quads, so that most
  // quads cost a maddubs and an addition; then neighbours are added into 32 bits. Bytes that use the eighth bit would
  // saturate, so they become signed and lend their sign to the activation (|w| ≤ 128, 2·128·127 < 2^15).
  template <int kZero, int kMax>
  struct Dot {
    static constexpr bool kSigned = kMax > 127;
    static constexpr int kFit = kSigned ? 1 : 32767 / (2 * kMax * 127);
    static_assert(!kSigned || kZero == 128);

    void start(int32_t /*activation_sum*/) {}
    template <int kQuad, int kQuads>
    void add(U weights, int32_t quad) {
      const __m256i x = _mm256_set1_epi32(quad);
      add_half<kQuad, kQuads>(weights.a, x, narrow.a, wide.a);
      add_half<kQuad, kQuads>(weights.b, x, narrow.b, wide.b);
    }
    I total(int32_t activation_sum) const {
      if constexpr (kSigned || kZero == 0) return wide;
      // As a product of vectors: g++ makes a shift of it. A scalar one would have to travel to the vector registers.
      const __m256i zero = _mm256_mullo_epi32(_mm256_set1_epi32(activation_sum), _mm256_set1_epi32(kZero));
      return {_mm256_sub_epi32(wide.a, zero), _mm256_sub_epi32(wide.b, zero)};
    }

   private:
    template <int kQuad, int kQuads>
    static void add_half(__m256i weights, __m256i x, __m256i& narrow, __m256i& wide) {
      __m256i pairs;
      if constexpr (kSigned) {
        const __m256i value = _mm256_xor_si256(weights, _mm256_set1_epi8(static_cast<char>(0x80)));
        pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(value), _mm256_sign_epi8(x, value));
      } else {
        pairs = _mm256_maddubs_epi16(weights, x);
      }
      narrow = kQuad % kFit == 0 ? pairs : _mm256_add_epi16(narrow, pairs);
      keep_order(narrow);
      if constexpr (kQuad % kFit == kFit - 1 || kQuad == kQuads - 1) {
        const __m256i sums = _mm256_madd_epi16(narrow, _mm256_set1_epi16(1));
        wide = kQuad < kFit ? sums : _mm256_add_epi32(wide, sums);
        keep_order(wide);
      }
    }
    // g++ would add in a tree, which keeps all products of a block at once, most of them on the stack.
    static void keep_order(__m256i& sum) { asm("" : "+x"(sum)); }

    I wide, narrow;
  };

  static F load_i8(const std::byte* p) {
    const auto* from = reinterpret_cast<const __m128i*>(p);  // two loads that widen: no shift between
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from))),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(p + 8)))};
  }
  static F load_e4m3(const std::byte* p) {  // see e4m3_to_f32
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m256i shifted = _mm256_slli_epi16(wide, 7);  // the sign twice
    const __m256i value = _mm256_and_si256(shifted, _mm256_set1_epi16(static_cast<int16_t>(0xbfff)));
    const __m256i all_ones = _mm256_or_si256(wide, _mm256_set1_epi16(static_cast<int16_t>(0xff80)));
    const __m256i nan = _mm256_srli_epi16(_mm256_cmpeq_epi16(all_ones, _mm256_set1_epi16(-1)), 1);
    const __m256i half = _mm256_or_si256(value, nan);
    const __m256 up = _mm256_set1_ps(256.0F);
    return {_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), up),
            _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), up)};
  }
  template <int kShift>
  static F load_nibbles(const std::byte* p) {
    const __m128i words = _mm_srli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), kShift);
    const __m128i bytes = _mm_and_si128(words, _mm_set1_epi8(15));
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  template <int kShift>
  static F load_centred_nibbles(const std::byte* p) {
    const __m128i words = _mm_srli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), kShift);
    const __m128i centred = _mm_setr_epi8(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m128i bytes = _mm_shuffle_epi8(centred, _mm_and_si128(words, _mm_set1_epi8(15)));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  static F to_float(I v) { return {_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)}; }
  static bool has_nan(F v) {
    return _mm256_movemask_ps(
               _mm256_or_ps(_mm256_cmp_ps(v.a, v.a, _CMP_UNORD_Q), _mm256_cmp_ps(v.b, v.b, _CMP_UNORD_Q))) != 0;
  }
  using Sums = QuantSums;
  static Sums round_store(F low, F high, int8_t* to) {
    const __m256i words_low = _mm256_packs_epi32(_mm256_cvtps_epi32(low.a), _mm256_cvtps_epi32(low.b));
    const __m256i words_high = _mm256_packs_epi32(_mm256_cvtps_epi32(high.a), _mm256_cvtps_epi32(high.b));
    // Quads of bytes lie as a0 b0 c0 d0 a1 b1 c1 d1, where a to d are the vectors and 0, 1 their halves.
    const __m256i mixed = _mm256_packs_epi16(words_low, words_high);
    const __m256i q = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), q);
    return sums_of(q);
  }

 private:
  // Every other one of a's lanes and b's, which _mm256_shuffle_ps picks from halves of 128 bits.
  template <int kPicked>
  static __m256 in_order(__m256 a, __m256 b) {
    const __m256d halves = _mm256_castps_pd(_mm256_shuffle_ps(a, b, kPicked));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(halves, 0xD8));
  }
  static F interleaved(__m256 a, __m256 b) {
    const __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    return {_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
  }
  template <int kShift, int kMask>
  static __m256i bits_of(__m256i x) {
    if constexpr (kShift > 0) x = _mm256_srli_epi16(x, kShift);
    if constexpr (kShift < 0) x = _mm256_slli_epi16(x, -kShift);
    return _mm256_and_si256(x, _mm256_set1_epi8(static_cast<char>(kMask)));
  }
  static __m256 rounded_to_bf16(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i near = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    return _mm256_blendv_ps(_mm256_castsi256_ps(_mm256_and_si256(near, high)),
                            _mm256_castsi256_ps(_mm256_and_si256(quiet, high)), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  }
  static __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace
}  // namespace quire
