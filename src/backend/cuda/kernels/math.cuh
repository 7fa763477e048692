// What kernels share: exp and soft cap by their definition (docs/numerics.md), numbers of 8 and 16 bits, sums over 16
// lanes.
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

// Sums of products as all but BF16 has them: fused is a · b + c, rounded once.
struct Plain {
  QR_DEVICE float operand(float x) const { return x; }
  QR_DEVICE float fused(float a, float b, float c) const { return dev::fma(a, b, c); }
  QR_DEVICE float add(float a, float b) const { return dev::add(a, b); }
  QR_DEVICE float sub(float a, float b) const { return dev::sub(a, b); }
  QR_DEVICE float mul(float a, float b) const { return dev::mul(a, b); }
};

// As a CPU makes them in the mode that flushes subnormals: numbers below the least normal one are zeros of their sign.
// A result is below it if, rounded as though exponents had no end, it is: what that rounds up to the least normal one
// is no zero, what only subnormals' wider steps round up is one. Every operand is what operand() or a result gives.
struct Flushing {
  QR_DEVICE float operand(float x) const {
    return (dev::as_bits(x) & 0x7f800000U) == 0 ? dev::as_float(dev::as_bits(x) & 0x80000000U) : x;
  }
  QR_DEVICE float fused(float a, float b, float c) const {
    const float x = dev::fma(a, b, c);
    if (is_settled(x)) return x;
    return settled(x, dev::fma(dev::mul(a, kWider), b, dev::mul(c, kWider)));
  }
  QR_DEVICE float add(float a, float b) const { return operand(dev::add(a, b)); }  // exact where it is so small
  QR_DEVICE float sub(float a, float b) const { return operand(dev::sub(a, b)); }
  QR_DEVICE float mul(float a, float b) const {
    const float x = dev::mul(a, b);
    return is_settled(x) ? x : settled(x, dev::mul(dev::mul(a, kWider), b));
  }

 private:
  // Of a result this near to the least normal number no operand is so large that this makes it infinite.
  static constexpr float kWider = 0x1p32F;
  // Whether it is a zero, or above the least normal number.
  QR_DEVICE bool is_settled(float x) const { return (dev::as_bits(x) & 0x7fffffffU) - 1U >= 0x00800000U; }
  QR_DEVICE float settled(float x, float wider) const {
    const bool is_below = dev::as_float(dev::as_bits(wider) & 0x7fffffffU) < 0x1p-126F * kWider;
    return is_below ? dev::as_float(dev::as_bits(x) & 0x80000000U) : x;
  }
};

template <class Arithmetic = Plain>
QR_DEVICE float soft_capped(float x, float cap) {
  const float e = exp_of(Arithmetic().mul(x, dev::div(2.0F, cap)));
  return Arithmetic().mul(cap, dev::sub(1.0F, dev::div(2.0F, dev::add(e, 1.0F))));
}

// In the high half of a word the nearest BF16, of two the even one.
QR_DEVICE uint32_t nearest_bf16(uint32_t bits) {
  return (bits & 0x7fffffffU) > 0x7f800000U ? bits | 0x400000U : bits + 0x7fffU + (bits >> 16 & 1U);
}
// The same as a number; of one below the least normal one a zero of its sign.
QR_DEVICE float rounded_to_bf16(float x) {
  const uint32_t bits = dev::as_bits(x);
  return dev::as_float((bits & 0x7f800000U) == 0 ? bits & 0x80000000U : nearest_bf16(bits) & 0xffff0000U);
}

// A float e4m3, by way of the half that has its bits, 2⁸ times smaller; of NaN's a NaN.
QR_DEVICE float float_of_e4m3(uint32_t code) {
  const uint32_t magnitude = code & 0x7fU;
  const uint32_t half = (code & 0x80U) << 8 | (magnitude == 0x7fU ? 0x7fffU : magnitude << 7);
  return dev::mul(dev::to_float(static_cast<uint16_t>(half)), 256.0F);
}
// The nearest of them, of two the even one; 448 for what is beyond it.
QR_DEVICE uint32_t nearest_e4m3(float x) {
  constexpr uint32_t kMost = 0x43e00000U, kLeastNormal = 0x3c800000U;  // 448, 2^-6
  const uint32_t bits = dev::as_bits(x), magnitude = bits & 0x7fffffffU, kept = magnitude < kMost ? magnitude : kMost;
  // Below 2^-6 they are multiples of 2^-9, the distance of floats from 2^14 on.
  const uint32_t code = kept < kLeastNormal ? dev::as_bits(dev::add(dev::as_float(kept), 0x1p14F)) & 0xffU
                                            : ((kept + 0x7ffffU + (kept >> 20 & 1U)) >> 20) - (120U << 3);
  return (magnitude < 0x7f800000U ? code : 0x7fU) | (bits >> 24 & 0x80U);
}

// fold of 16 neighbouring lanes, whose own sums x are; each of them gets it. All lanes of the warp call.
QR_DEVICE float folded(float x) {
  x = dev::add(x, dev::shuffle_xor(x, 8));
  x = dev::add(x, dev::shuffle_xor(x, 4));
  x = dev::add(x, dev::shuffle_xor(x, 2));
  return dev::add(x, dev::shuffle_xor(x, 1));
}

inline constexpr int kLeastShared = 99 << 10;  // bytes of shared memory that a block may have on any device from 8.0 on

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
