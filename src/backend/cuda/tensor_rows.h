// Rows of a tensor as kernels take them.
#pragma once
#include "backend/cuda/kernels/math.cuh"
#include "tensor/tensor.h"

namespace quire::cuda {

inline Rows<float> rows_of(const Tensor& t) { return {t.ptr<float>(), t.stride[0]}; }
inline Rows<const float> read_rows(const Tensor& t) {
  return t.empty() ? Rows<const float>{nullptr, 0} : Rows<const float>{t.ptr<float>(), t.stride[0]};
}

}  // namespace quire::cuda
