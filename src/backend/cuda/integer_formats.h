// The integer formats that there are kernels for, each by the name of the weight format that it holds.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernels/linear_few.cuh"
#include "backend/cuda/kernels/linear_integer.cuh"
#include "backend/cuda/launches.h"
#include "quant/weight_format.h"

namespace quire::cuda {

struct IntegerFormat {
  std::string_view name;
  int scale_group;
  int stage_bytes;  // of 64 outputs × 256 k (kernels/packed.cuh)
  // A row of n_in numbers, output `out` of a run of 64 whose stages begin at `stages` and are zeros there.
  void (*pack)(const std::byte* row, int64_t n_in, int out, std::byte* stages);
  Launch (*multiply)(const IntegerProduct& product, const DeviceSize& device);
  // Rows that multiply_few takes on such a device: 16 or 8. Its blocks are runs of 16 outputs.
  int64_t (*most_few)(const DeviceSize& device);
  Launch (*multiply_few)(const FewProduct& product, Blocks blocks, const DeviceSize& device);
  // Without its blocks: columns / 256, rows.
  Launch (*embed)(const IntegerRows& rows, int n_columns, Blocks blocks);
};

// nullptr where there is none.
const IntegerFormat* find_integer_format(const WeightFormat& format);

}  // namespace quire::cuda
