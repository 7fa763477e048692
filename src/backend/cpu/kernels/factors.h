// What one step of attention's sums multiplies: a number in each lane with one that all lanes share or, of codecs that
// keep two of BF16 side by side (C::kTogether == 2), two with two: the second pair first, each sum rounded, as
// VDPBF16PS does (docs/numerics.md, "Attention"). A step is kParts products, one after the other. Numbers that all
// lanes share lie kPerFloat in a float's place, the floats of one step `apart` from each other.
#pragma once
#include "backend/cpu/kernels/tables.h"
#include "quant/kv_codec.h"

namespace quire {
namespace {

template <class V, class C, int kTogether = C::kTogether, int kPerFloatOfPairs = V::kBf16PerFloat>
struct Factors;

template <class V, class C, int kPerFloatOfPairs>
struct Factors<V, C, 1, kPerFloatOfPairs> {
  using F = typename V::F;
  static constexpr int kParts = 1, kPerFloat = 1;
  static constexpr int kRows = V::kAttentionRows;  // that are summed at once
  static constexpr int kSums = V::kAttentionSums;  // that are in flight at least, where there are fewer rows

  static QR_INLINE F key(const std::byte* strip, int d, int /*part*/) { return C::template load_k<V>(strip, d); }
  static QR_INLINE F value(const std::byte* strip, int t, int dim, int d, int /*part*/) {
    return C::template load_v<V>(strip, t, dim, d);
  }
  static QR_INLINE F shared(const float* from, int /*apart*/, int /*part*/) { return V::set1(*from); }
  static QR_INLINE F add(F lanes, F shared, F sum) { return V::fma(lanes, shared, sum); }
  static QR_INLINE void store_shared(float* to, F x) { V::store(to, x); }
};

// Pairs of BF16 as the vocabulary has them: P is PairsAsFloats or WholePairs.
template <class V, class C, class P>
struct PairFactors : P {
  static QR_INLINE auto key(const std::byte* strip, int d, int part) { return P::load(C::key(strip, d), part); }
  static QR_INLINE auto value(const std::byte* strip, int t, int dim, int d, int part) {
    return P::load(C::value(strip, t, dim, d), part);
  }
  // Number `kept` of each pair beside zeros.
  static QR_INLINE auto half_value(const uint16_t* pairs, int kept, int part) {
    uint16_t half[32];
    __builtin_memcpy(half, pairs, sizeof half);
    for (int i = 1 - kept; i < 32; i += 2) half[i] = 0;
    return P::load(half, part);
  }
  // Rounded to nearest even; what is below the least normal number is a zero of its sign.
  static QR_INLINE void store_shared(float* to, typename V::F x) { V::store_bf16(to, x); }
};

template <class V>
struct PairsAsFloats {
  using F = typename V::F;
  static constexpr int kParts = 2, kPerFloat = 1;
  static constexpr int kRows = V::kAttentionRows, kSums = V::kAttentionSums;

  static QR_INLINE F load(const uint16_t* pairs, int part) {
    F two[2];
    // Each part loads them by itself where there are no registers to keep them in: 58 to 73 Gflop/s (AVX2).
    if constexpr (kRows < 16) asm volatile("" : "+r"(pairs));
    V::load_bf16_pairs(pairs, two);
    return two[1 - part];
  }
  static QR_INLINE F shared(const float* from, int apart, int part) { return V::set1(from[(1 - part) * apart]); }
  static QR_INLINE F add(F lanes, F shared, F sum) { return V::fma(lanes, shared, sum); }
};

// Nothing is converted that many rows could share, so few rows of two vectors need fewer loads; VDPBF16PS takes longer
// than an fma (docs/backend-cpu.md).
template <class V>
struct WholePairs {
  using F = typename V::F;
  using Lanes = typename V::U;
  static constexpr int kParts = 1, kPerFloat = 2;
  static constexpr int kRows = 8, kSums = 16;

  static QR_INLINE Lanes load(const uint16_t* pairs, int /*part*/) {
    return V::load_bytes(reinterpret_cast<const std::byte*>(pairs));
  }
  static QR_INLINE F shared(const float* from, int /*apart*/, int /*part*/) { return V::set1(*from); }
  static QR_INLINE F add(Lanes lanes, F shared, F sum) { return V::dot_bf16(lanes, shared, sum); }
};

template <class V, class C>
struct Factors<V, C, 2, 1> : PairFactors<V, C, PairsAsFloats<V>> {};
template <class V, class C>
struct Factors<V, C, 2, 2> : PairFactors<V, C, WholePairs<V>> {};

}  // namespace
}  // namespace quire
