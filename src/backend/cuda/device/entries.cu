// Every kernel as an entry point of a module, for nvcc: one argument, the kernel's struct. The next kernel may begin as
// soon as all blocks of this one have; it waits for this one's end before it touches what a kernel writes.
#include "backend/cuda/kernels/list.cuh"

namespace quire::cuda {

template <class Kernel>
constexpr int resident() {
  if constexpr (requires { Kernel::kResident; }) return Kernel::kResident;
  return 0;
}

template <class Kernel>
QR_DEVICE void run(const Kernel& kernel) {
  dev::let_next_begin();
  if constexpr (!requires { Kernel::kWaitsItself; }) dev::wait_for_previous();
  kernel();
}

#define QR_ENTRY(name, Kernel)                                                       \
  extern "C" __global__ void __launch_bounds__(Kernel::kThreads, resident<Kernel>()) \
      quire_##name(const Kernel kernel) {                                            \
    run(kernel);                                                                     \
  }
QR_KERNELS(QR_ENTRY)
#undef QR_ENTRY

}  // namespace quire::cuda
