// Every kernel of kernels/list.cuh as the host's compiler makes it, for the emulator.
#pragma once
#include <string_view>

namespace quire::cuda {

struct KernelBody {
  const char* name;
  void (*body)(const void* arguments);  // one thread
  int argument_bytes, n_threads, shared_bytes;
};

// Null: there is none of this name.
const KernelBody* find_kernel(std::string_view name);

}  // namespace quire::cuda
