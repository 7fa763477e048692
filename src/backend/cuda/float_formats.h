// The formats of floats that there are kernels for, each by the name of the weight format that it holds.
#pragma once
#include <string_view>

#include "backend/cuda/kernels/linear_float.cuh"

namespace quire::cuda {

// Calls with(W) for the format of kernels/linear_float.cuh that holds weights of this name; false where none does.
template <class With>
bool with_float_format(std::string_view name, const With& with) {
  if (name == "f32") return with(FloatF32()), true;
  if (name == "f16") return with(FloatF16()), true;
  if (name == "bf16") return with(FloatBF16()), true;
  if (name == "f8_32" || name == "f8_128") return with(FloatF8()), true;
  return false;
}

}  // namespace quire::cuda
