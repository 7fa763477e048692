// Activations for integer formats (docs/numerics.md, "Activations"): activation groups of 32 of a row, a warp each.
// Writes 32 int8 and a scale for each. Grid: activation groups / 4, rows.
#pragma once
#include "backend/cuda/kernels/math.cuh"

namespace quire::cuda {

struct Quantize {
  static constexpr int kThreads = 128, kSharedBytes = 0;
  Rows<const float> x;
  int8_t* q;      // [rows, 32 · n_activation_groups]
  float* scales;  // [rows, scale_pitch]
  int n_activation_groups;
  int scale_pitch;

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
    dev::store(q + (row * n_activation_groups + g) * 32 + lane, static_cast<int8_t>(rounded & 0xffU));
    if (lane != 0) return;
    const float scale = counts ? dev::div(amax, 127.0F) : is_finite ? 0.0F : dev::as_float(0x7fc00000U);
    dev::store(scales + row * scale_pitch + g, scale);
  }
};

}  // namespace quire::cuda
