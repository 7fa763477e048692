// How weights lie in device memory, and what the host makes of them on the way there.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/cuda/cuda_ops.h"
#include "backend/cuda/integer_formats.h"
#include "base/result.h"
#include "quant/weight_format.h"

namespace quire::cuda {

// Of a matrix of an integer format: [outputs / 64][n_stages] stages, zeros beyond the ends.
struct StagedMatrix {
  StagedMatrix(const IntegerFormat& format, int64_t rows, int64_t columns);
  int64_t n_stages, panel_bytes, bytes;  // a panel: 64 outputs
};

// Of a matrix of a format of floats: [outputs / 64][n_blocks] stages (kernels/linear_float.cuh), zeros beyond the ends.
struct PanelMatrix {
  PanelMatrix(const WeightFormat& format, int64_t rows, int64_t columns);
  int64_t n_blocks, stage_bytes, bytes;
};

// Of a matrix of BF16 for tensor cores (kernels/tensor_panels.cuh), zeros beyond the ends.
struct TensorMatrix {
  TensorMatrix(int64_t rows, int64_t columns);
  int64_t n_blocks, bytes;
};

// Code::unsupported where there is no kernel for the weight.
Status check_weight(const HostWeight& weight);

// Of a weight that check_weight() passes; of two arithmetics the one that takes more.
int64_t packed_bytes(const WeightFormat& format, int64_t n_out, int64_t n_in);
std::vector<std::byte> packed(const HostWeight& weight, CudaArithmetic arithmetic);

// Whether matrices of this format are multiplied by bf16 mma, and lie as a TensorMatrix.
bool is_for_tensor(CudaArithmetic arithmetic, const WeightFormat& format);

}  // namespace quire::cuda
