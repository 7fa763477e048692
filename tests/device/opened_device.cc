// The device that NVIDIA's driver shows, for the tests of the CUDA backend.
#include "tests/parity/cuda_corpus.h"

namespace quire {

std::vector<std::vector<float>> on_devices(Body body) {
  static const auto runtime = cuda::open_runtime();
  if (!runtime) throw std::runtime_error(runtime.error().message);
  const auto ops = cuda::CudaOps::make(*runtime, cpu_sample_kernels());
  Bench bench(**ops);
  return {body(bench)};
}

}  // namespace quire
