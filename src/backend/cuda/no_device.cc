// In place of the backend where the program has neither the driver's runtime nor the emulator.
#include "backend/cuda/cuda_ops.h"

namespace quire {
namespace {

constexpr std::string_view kNone = "the cuda backend: this program has no CUDA runtime (the preset `cuda` builds it)";

}  // namespace

Result<std::unique_ptr<Ops>> make_cuda_ops(const SampleKernels&, CudaArithmetic) {
  return fail(Code::unsupported, std::string(kNone));
}

Status check_cuda_has(std::span<const AttnParams>) { return fail(Code::unsupported, std::string(kNone)); }

int64_t cuda_free_bytes() { return -1; }

int64_t cuda_linear_bytes(const WeightFormat&, int64_t, int64_t) { return 0; }

}  // namespace quire
