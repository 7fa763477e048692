// Products in tensor arithmetic, launched.
#pragma once
#include "backend/cuda/kernels/list.cuh"
#include "backend/cuda/launches.h"

namespace quire::cuda {

// Of LinearTensor or LinearWgmma. Runs of rows go in batches that are in the cache while the weights pass by; how many
// is best was not measured.
template <class Kernel>
void launch_tensor(Runtime& runtime, TensorProduct product) {
  constexpr int64_t kBatch = 1024;  // rows
  const int64_t n_runs = parts_of(product.n, Kernel::kRows);
  if (n_runs == 0) return;
  const int64_t n_batches = parts_of(n_runs, parts_of(kBatch, Kernel::kRows));
  product.batch = static_cast<int>(parts_of(n_runs, n_batches));
  run(runtime, Kernel{product}, product.batch, parts_of(product.n_out, Kernel::kOutputs), n_batches);
}

}  // namespace quire::cuda
