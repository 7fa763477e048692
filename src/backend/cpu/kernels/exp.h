// exp by its definition in docs/numerics.md: the same operations in the same order on every instruction set.
//   n = round(x · log2 e), r = x − n · ln 2 (two steps), degree 7 polynomial in r, scaled by 2^n.
// x is clamped to [−87, 88]; below −87 the result is 0. NaN stays NaN. Error below 2 ulp.
#pragma once
#include "quant/f16.h"  // QR_INLINE

namespace quire {

// Of N vectors, operation after operation: a scheduler that holds 100 of them sees five chains of 17 behind each other,
// which wait for themselves (cycles: docs/backend-cpu.md). Where nothing is above 0 (kMayRise = false) only one end is
// clamped.
template <class V, int N, bool kMayRise>
QR_INLINE void exp_some(typename V::F* x) {
  using F = typename V::F;
  const F low = V::set1(-87.0F);
  const F magic = V::set1(12582912.0F);  // 1.5·2^23: adding it rounds to an integer
  F t[N], n[N], r[N], p[N];
  for (int i = 0; i < N; ++i) r[i] = V::max(low, x[i]);  // the second wins where x is NaN
  for (int i = 0; kMayRise && i < N; ++i) r[i] = V::min(V::set1(88.0F), r[i]);
  for (int i = 0; i < N; ++i) t[i] = V::fma(r[i], V::set1(1.44269504F), magic);
  for (int i = 0; i < N; ++i) n[i] = V::sub(t[i], magic);
  // ln 2 in two parts, the first exact in 10 bits.
  for (int i = 0; i < N; ++i) r[i] = V::fma(n[i], V::set1(-0.693359375F), r[i]);
  for (int i = 0; i < N; ++i) r[i] = V::fma(n[i], V::set1(2.12194440e-4F), r[i]);
  for (int i = 0; i < N; ++i) p[i] = V::set1(1.0F / 5040.0F);
  constexpr float kFactors[] = {1.0F / 720.0F, 1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F};
  for (const float c : kFactors) {
    for (int i = 0; i < N; ++i) p[i] = V::fma(p[i], r[i], V::set1(c));
  }
  for (int i = 0; i < N; ++i) x[i] = V::zero_if_lt(x[i], low, V::times_exp2(p[i], n[i], t[i]));
}

template <class V>
QR_INLINE typename V::F exp_lanes(typename V::F x) {
  exp_some<V, 1, true>(&x);
  return x;
}

// cap · tanh(x / cap) by way of exp: cap · (1 − 2 / (exp(x · (2 / cap)) + 1)), docs/numerics.md "Soft cap". Absolute
// error below 2e-7 · cap. NaN stays NaN.
template <class V>
QR_INLINE typename V::F soft_cap_lanes(typename V::F x, float cap) {
  const typename V::F one = V::set1(1.0F);
  const typename V::F e = exp_lanes<V>(V::mul(x, V::set1(2.0F / cap)));
  return V::mul(V::set1(cap), V::sub(one, V::div(V::set1(2.0F), V::add(e, one))));
}

}  // namespace quire
