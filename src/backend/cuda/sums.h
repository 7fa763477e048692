// The sums over a vocabulary that sampling needs, on the host, with the bits of docs/numerics.md, "Sampling".
#pragma once
#include "ops/sample_row.h"

namespace quire::cuda {

SampleKernels sample_sums();

}  // namespace quire::cuda
