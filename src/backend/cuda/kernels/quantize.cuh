// Activations for integer formats (docs/numerics.md, "Activations"): activation groups of 32 of a row, a warp each.
// Writes 32 int8, a scale, and scale · Σ of them and of their halves. Grid: activation groups / 4, rows.
#pragma once
#include "backend/cuda/kernels/math.cuh"

namespace quire::cuda {

struct Quantize {
  static constexpr int kThreads = 128, kSharedBytes = 0;
  Rows<const float> x;
  int8_t* q;         // [rows, 32 · n_activation_groups]
  float* scales;     // [rows, pitch]
  float* sums;       // [rows, pitch]
  float* half_sums;  // [rows, 2 · pitch], of the first and the last 16
  int n_activation_groups;
  int pitch;

  // scale · Σ. All lanes of the warp call.
  QR_DEVICE void store_sums(int64_t group, int32_t number, float scale) const {
    const int lane = dev::thread() % 32;
    auto sum = static_cast<uint32_t>(number);
    for (int n = 8; n > 0; n /= 2) sum += dev::shuffle_xor(sum, n);
    const uint32_t all = sum + dev::shuffle_xor(sum, 16);
    if (lane == 0) dev::store(sums + group, dev::mul(scale, dev::whole(static_cast<int32_t>(all))));
    if (lane % 16 == 0) {
      dev::store(half_sums + 2 * group + lane / 16, dev::mul(scale, dev::whole(static_cast<int32_t>(sum))));
    }
  }

  QR_DEVICE void operator()() const {
    const int lane = dev::thread() % 32;
    const int g = dev::block_x() * (kThreads / 32) + dev::thread() / 32;
    if (g >= n_activation_groups) return;
    const int64_t row = dev::block_y();
    const float v = dev::load(x.row(row) + g * 32 + lane);
    // As integers magnitudes order as floats do, infinity and NaN above all.
    uint32_t largest = dev::as_bits(v) & 0x7fffffffU;
    for (int n = 16; n > 0; n /= 2) {
      const uint32_t other = dev::shuffle_xor(largest, n);
      largest = other > largest ? other : largest;
    }
    const bool is_finite = largest < 0x7f800000U;
    const float amax = dev::as_float(largest);
    const bool counts = is_finite && amax >= 0x1p-120F;
    const float scaled = counts ? dev::mul(v, dev::div(127.0F, amax)) : 0.0F;
    const uint32_t rounded = dev::as_bits(dev::add(scaled, 12582912.0F));  // the integer in the low bits
    const auto number = static_cast<int8_t>(rounded & 0xffU);
    const float scale = counts ? dev::div(amax, 127.0F) : is_finite ? 0.0F : dev::as_float(0x7fc00000U);
    dev::store(q + (row * n_activation_groups + g) * 32 + lane, number);
    store_sums(row * pitch + g, number, scale);
    if (lane == 0) dev::store(scales + row * pitch + g, scale);
  }
};

}  // namespace quire::cuda
