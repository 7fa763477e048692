// Every kernel as an entry point of a module, for nvcc: one argument, the kernel's struct.
#include "backend/cuda/kernels/list.cuh"

namespace quire::cuda {

#define QR_ENTRY(name, Kernel) \
  extern "C" __global__ void __launch_bounds__(Kernel::kThreads) quire_##name(const Kernel kernel) { kernel(); }
QR_KERNELS(QR_ENTRY)
#undef QR_ENTRY

}  // namespace quire::cuda
