// The device that NVIDIA's driver shows, for the tests of the CUDA backend.
#include "backend/cuda/replays.h"
#include "tests/parity/cuda_corpus.h"

namespace quire {

static std::vector<std::vector<float>> on_device(Body body, CudaArithmetic arithmetic) {
  static const auto runtime = cuda::open_runtime();
  if (!runtime) throw std::runtime_error(runtime.error().message);
  std::vector<std::vector<float>> out;
  for (const auto& each : {*runtime, cuda::with_replays(*runtime)}) {
    const auto ops = cuda::CudaOps::make(each, cpu_sample_kernels(), arithmetic);
    Bench bench(**ops);
    out.push_back(body(bench));
  }
  return out;
}

std::vector<std::vector<float>> on_devices(Body body) { return on_device(body, CudaArithmetic::portable); }
std::vector<std::vector<float>> in_tensor_arithmetic(Body body) { return on_device(body, CudaArithmetic::tensor); }

}  // namespace quire
