// What kernels share: exp and soft cap by their definition (docs/numerics.md), sums over 16 lanes.
#pragma once
#include "backend/cuda/device/door.h"

namespace quire::cuda {

constexpr float kInfinity = __builtin_huge_valf();

QR_DEVICE float exp_of(float x) {
  float r = x < -87.0F ? -87.0F : x > 88.0F ? 88.0F : x;
  const float t = dev::fma(r, 1.44269504F, 12582912.0F);
  const float n = dev::sub(t, 12582912.0F);
  r = dev::fma(n, -0.693359375F, r);
  r = dev::fma(n, 2.12194440e-4F, r);
  float p = 1.0F / 5040.0F;
  p = dev::fma(p, r, 1.0F / 720.0F);
  p = dev::fma(p, r, 1.0F / 120.0F);
  p = dev::fma(p, r, 1.0F / 24.0F);
  p = dev::fma(p, r, 1.0F / 6.0F);
  p = dev::fma(p, r, 0.5F);
  p = dev::fma(p, r, 1.0F);
  p = dev::fma(p, r, 1.0F);
  return x < -87.0F ? 0.0F : dev::mul(p, dev::as_float((dev::as_bits(t) + 127U) << 23));
}

QR_DEVICE float soft_capped(float x, float cap) {
  const float e = exp_of(dev::mul(x, dev::div(2.0F, cap)));
  return dev::mul(cap, dev::sub(1.0F, dev::div(2.0F, dev::add(e, 1.0F))));
}

// fold of 16 neighbouring lanes, whose own sums x are; each of them gets it. All lanes of the warp call.
QR_DEVICE float folded(float x) {
  x = dev::add(x, dev::shuffle_xor(x, 8));
  x = dev::add(x, dev::shuffle_xor(x, 4));
  x = dev::add(x, dev::shuffle_xor(x, 2));
  return dev::add(x, dev::shuffle_xor(x, 1));
}

// Numbers that lie together, in one access.
template <class T, int kN>
struct alignas(kN * sizeof(T)) Pack {
  T x[kN];
};
using FourFloats = Pack<float, 4>;

// Rows of floats `stride` apart.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
  QR_DEVICE T* row(int64_t i) const { return data + i * stride; }
};

}  // namespace quire::cuda
