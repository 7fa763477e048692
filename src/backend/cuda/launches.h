// Kernels launched over the parts of their work.
#pragma once
#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/runtime.h"
#include "base/check.h"

namespace quire::cuda {

inline constexpr int64_t kMostRows = 65535;  // of a grid's second and third axis

// How many parts of `size` hold n.
inline int64_t parts_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

// Nothing where an axis of the grid is empty.
template <class Kernel>
void run(Runtime& runtime, const Kernel& kernel, int64_t x, int64_t y = 1, int64_t z = 1) {
  if (x > 0 && y > 0 && z > 0) runtime.launch(launch_of(kernel, Blocks{x, y, z}));
}

// A thread for each number of these rows.
template <class Each>
void run_each(Runtime& runtime, const Each& each, int64_t n_rows, int64_t n_columns) {
  using Kernel = Elementwise<Each>;
  QR_CHECK(n_rows <= kMostRows && n_columns < (int64_t{1} << 31));
  run(runtime, Kernel{each, static_cast<int>(n_columns)}, parts_of(n_columns, Kernel::kThreads), n_rows);
}

}  // namespace quire::cuda
