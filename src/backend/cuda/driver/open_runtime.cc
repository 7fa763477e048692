// The device that NVIDIA's driver shows: one runtime for the whole process, since to open it takes a while and several
// ask (what the memory holds, then the backend). It stays until the end, when the system takes all of it back: the
// driver may be gone before static objects are.
#include <mutex>

#include "backend/cuda/driver/runtime_cuda.h"

namespace quire::cuda {

Result<std::shared_ptr<Runtime>> open_runtime() {
  static std::mutex mutex;
  static auto* const kept = new std::shared_ptr<Runtime>();
  const std::lock_guard held(mutex);
  if (*kept == nullptr) {
    QR_TRY(*kept, open_driver_runtime({.image = kernel_image()}));
  }
  return *kept;
}

}  // namespace quire::cuda
