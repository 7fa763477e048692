// The formats of adapters' matrices A, by how their numbers are held. Pure functions; any thread.
#pragma once
#include "ops/held_numbers.h"
#include "quant/weight_format.h"

namespace quire {

// BF16 of which x is not rounded, as LowRankKernels::bf16 has it: no format of a file's weights.
inline const WeightFormat& exact_bf16() {
  static const WeightFormat kFormat = [] {
    WeightFormat out = *find_weight_format("bf16");
    out.rounded = false;
    return out;
  }();
  return kFormat;
}
inline const WeightFormat* held_format(HeldAs held) {
  return held == HeldAs::bf16 ? &exact_bf16() : find_weight_format(held == HeldAs::f16 ? "f16" : "f32");
}
// REQUIRES one of the three above.
inline HeldAs held_as(const WeightFormat& format) {
  if (&format == &exact_bf16()) return HeldAs::bf16;
  return format.name == "f16" ? HeldAs::f16 : HeldAs::f32;
}

}  // namespace quire
