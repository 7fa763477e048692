#include "backend/cuda/emulated/kernel_bodies.h"

#include <algorithm>
#include <iterator>

#include "backend/cuda/kernels/list.cuh"

namespace quire::cuda {
namespace {

template <class Kernel>
constexpr KernelBody body_of() {
  return {KernelName<Kernel>::kValue, [](const void* at) { (*static_cast<const Kernel*>(at))(); },
          static_cast<int>(sizeof(Kernel)), Kernel::kThreads, Kernel::kSharedBytes};
}

#define QR_BODY(name, Kernel) body_of<Kernel>(),
constexpr KernelBody kBodies[] = {QR_KERNELS(QR_BODY)};
#undef QR_BODY

}  // namespace

const KernelBody* find_kernel(std::string_view name) {
  const auto* found = std::ranges::find(kBodies, name, &KernelBody::name);
  return found != std::end(kBodies) ? found : nullptr;
}

}  // namespace quire::cuda
