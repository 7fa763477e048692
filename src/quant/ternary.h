// What the formats of numbers −1, 0 and 1 have in common: one scale for 256 of them.
#pragma once
#include "quant/k_format.h"

namespace quire {

QR_INLINE void set_ternary_scales(uint16_t d, KParts& parts) {
  parts.d = d;
  for (int8_t& scale : parts.scale) scale = 1;
}

// Numbers of weights that are ternary but for their scale: the largest is the scale, and each goes to its nearest.
QR_INLINE void fit_ternary(const float* in, KParts& parts) {
  float most = 0;
  for (int i = 0; i < 256; ++i) most = __builtin_fabsf(in[i]) > most ? __builtin_fabsf(in[i]) : most;
  set_ternary_scales(f32_to_f16(most < 65504.0F ? most : 65504.0F), parts);
  const float half = f16_to_f32(parts.d) / 2;
  for (int i = 0; i < 256; ++i) parts.q[i] = static_cast<uint8_t>(1 + (in[i] > half) - (in[i] < -half));
}

}  // namespace quire
