// Weights in e2m1, two numbers in a byte, the first in the low bits, whose scale groups of columns have a scale in
// eight bits: an exponent (MXFP4, scale groups of 32), value = 2^(byte − 127) · e2m1; or e4m3 under a divisor of them
// all (NVFP4, scale groups of 16), value = e4m3 / divisor · e2m1, each rounded to f32. MXFP4 becomes blocks of mxfp4,
// which are the same; of NVFP4 no format here has scale groups of 16 under such scales: f32. Immutable once made; any
// thread. Source: the unpacking of compressed-tensors 0.20, in f32.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "quant/weight_format.h"

namespace quire {

struct Fp4Parts {
  int64_t n_out = 0, n_in = 0;
  std::span<const std::byte> numbers, scales;  // [n_out, n_in / 2]; [n_out, n_in / scale_group()]
  bool has_exponents = true;
  float divisor = 1;  // of e4m3's

  int64_t scale_group() const { return has_exponents ? 32 : 16; }
  int64_t n_scales() const { return n_out * (n_in / scale_group()); }
  float scale(int64_t i) const;
};

// The weight that they are. REQUIRES spans of just these sizes, n_in % scale_group() == 0, finite scales.
HostWeight fp4_weight(std::string name, const Fp4Parts& parts);

}  // namespace quire
