// exp by its definition in docs/numerics.md: the same operations in the same order on every instruction set.
//   n = round(x · log2 e), r = x − n · ln 2 (two steps), degree 7 polynomial in r, scaled by 2^n.
// x is clamped to [−87, 88]; below −87 the result is 0. NaN stays NaN. Error below 2 ulp.
#pragma once
#include "quant/f16.h"  // QR_INLINE

namespace quire {

template <class V>
QR_INLINE typename V::F exp_lanes(typename V::F x) {
  using F = typename V::F;
  const F low = V::set1(-87.0F);
  const F clamped = V::min(V::set1(88.0F), V::max(low, x));  // the second operand wins where x is NaN
  const F magic = V::set1(12582912.0F);                      // 1.5·2^23: adding it rounds to an integer
  const F t = V::fma(clamped, V::set1(1.44269504F), magic);
  const F n = V::sub(t, magic);
  F r = V::fma(n, V::set1(-0.693359375F), clamped);  // ln 2 in two parts, the first exact in 10 bits
  r = V::fma(n, V::set1(2.12194440e-4F), r);
  F p = V::set1(1.0F / 5040.0F);
  p = V::fma(p, r, V::set1(1.0F / 720.0F));
  p = V::fma(p, r, V::set1(1.0F / 120.0F));
  p = V::fma(p, r, V::set1(1.0F / 24.0F));
  p = V::fma(p, r, V::set1(1.0F / 6.0F));
  p = V::fma(p, r, V::set1(0.5F));
  p = V::fma(p, r, V::set1(1.0F));
  p = V::fma(p, r, V::set1(1.0F));
  return V::select_lt(x, low, V::zero(), V::mul(p, V::exp2_of_magic(t)));
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
