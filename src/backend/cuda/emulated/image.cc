// In place of compiled kernels: what the driver for tests (fake_libcuda.cc) takes for them, and no other.
#include "backend/cuda/driver/runtime_cuda.h"
#include "backend/cuda/emulated/fake_libcuda.h"

namespace quire::cuda {

std::span<const std::byte> kernel_image() { return std::as_bytes(std::span(kFakeImage)); }

}  // namespace quire::cuda
