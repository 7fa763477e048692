// How weights lie in device memory, and what the host makes of them on the way there.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/cuda/integer_formats.h"
#include "base/result.h"
#include "quant/weight_format.h"

namespace quire::cuda {

// Of a matrix of an integer format: [outputs / 64][n_stages] stages, zeros beyond the ends.
struct StagedMatrix {
  StagedMatrix(const IntegerFormat& format, int64_t rows, int64_t columns);
  int64_t n_stages, panel_bytes, bytes;  // a panel: 64 outputs
};

// Of a matrix of floats or halves: panels of 64 outputs, [panel][32 · n_blocks][64], zeros beyond the ends.
struct PanelMatrix {
  PanelMatrix(const WeightFormat& format, int64_t rows, int64_t columns);
  int64_t n_blocks, bytes;
};

// Code::unsupported where there is no kernel for the weight.
Status check_weight(const HostWeight& weight);

// Of a weight that check_weight() passes.
int64_t packed_bytes(const WeightFormat& format, int64_t n_out, int64_t n_in);
std::vector<std::byte> packed(const HostWeight& weight);

}  // namespace quire::cuda
