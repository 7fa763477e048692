// How weights lie in device memory, and what the host makes of them on the way there.
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "quant/weight_format.h"

namespace quire::cuda {

// How many parts of `size` hold n.
inline int64_t parts_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

// Of a Q8_0 matrix: [n_out, n_in] int8, then its scales, halves.
struct PackedMatrix {
  PackedMatrix(int64_t rows, int64_t columns);
  int64_t n_out, n_in, n_scale_groups, scale_pitch;
  int64_t scales_at, bytes;
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
