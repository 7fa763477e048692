// The device that NVIDIA's driver shows.
#include "backend/cuda/driver/runtime_cuda.h"

namespace quire::cuda {

Result<std::shared_ptr<Runtime>> open_runtime() { return open_driver_runtime({.image = kernel_image()}); }

}  // namespace quire::cuda
