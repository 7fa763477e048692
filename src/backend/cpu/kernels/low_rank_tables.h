// Tables of the kernels that adapters need besides, as kernels/tables.h has those of products.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backend/cpu/kernels/tables.h"
#include "ops/held_as.h"

namespace quire {

// y += B·h for rows h; before that y = y · factor + summand where B has these (ops/low_rank.h).
struct LowRankTask {
  const std::byte* b = nullptr;  // panels of 16 outputs, each [n_of_output][16]
  int64_t rank = 0;
  int64_t n_of_output = 0;     // rank, or behind it a factor and a summand more
  int64_t begin = 0, end = 0;  // outputs; begin need not be a panel's first
  const float* h = nullptr;    // [n, rank], h_stride apart
  int64_t h_stride = 0;
  float* y = nullptr;  // row 0's output `begin`
  int64_t y_stride = 0;
  int64_t n = 0;
};

struct LowRankKernels {
  std::string_view isa;
  LinearKernels bf16;  // of A that is held in BF16: x is multiplied as it is, as an F32 weight would (docs/numerics.md)
  void (*add[kHeldAs])(const LowRankTask& task);  // by how B is held
};

// One for each of isa_tables().
std::span<const LowRankKernels* const> low_rank_kernels();

}  // namespace quire
