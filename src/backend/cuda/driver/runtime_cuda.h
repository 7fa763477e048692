// The runtime on NVIDIA's driver: the first device that it shows, one context, one module with every kernel, one
// stream. Memory of Place::shared is managed memory, which moves to who touches it. An error after the runtime was
// opened is a dead device: it ends the process with a line that names the call and the driver's error, but for memory
// that ended.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "backend/cuda/runtime.h"

namespace quire::cuda {

struct DriverOptions {
  std::string library = "libcuda.so.1";
  std::span<const std::byte> image = {};  // the kernels, compiled; stays as it is
};

// Code::unsupported where there is no driver, no device, one before compute capability 8.0 or one that `image` has no
// code for; Code::internal and Code::exhausted are the driver's errors. The message names the call. Nothing stays open
// then.
Result<std::shared_ptr<Runtime>> open_driver_runtime(const DriverOptions& options);

// The kernels that this program holds.
std::span<const std::byte> kernel_image();

}  // namespace quire::cuda
