// Weights in e2m1, two numbers in a byte, the first in the low bits, whose scale groups of columns have a scale in
// eight bits: an exponent (MXFP4, scale groups of 32), value = 2^(byte − 127) · e2m1; or e4m3 under a factor or a
// divisor of them all (NVFP4, scale groups of 16), value = e4m3 · factor / divisor · e2m1, each rounded to f32. MXFP4
// becomes blocks of mxfp4, which are the same; NVFP4 f4_64, whose factor is factor / divisor: the same where the
// divisor is 1, else within two roundings of f32; where rows are no whole blocks of it f32, which is the same.
// Immutable once made; any thread. Sources: the unpacking of compressed-tensors 0.20 (a divisor) and of ModelOpt (a
// factor), in f32.
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
  float factor = 1, divisor = 1;  // of e4m3's; one of the two is 1

  int64_t scale_group() const { return has_exponents ? 32 : 16; }
  int64_t n_scales() const { return n_out * (n_in / scale_group()); }
  float scale(int64_t i) const;
};

// The weight that they are. REQUIRES spans of just these sizes, n_in % scale_group() == 0, finite scales.
HostWeight fp4_weight(std::string name, const Fp4Parts& parts);

}  // namespace quire
