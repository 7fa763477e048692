// A runtime without a device, for tests: kernels run in the emulator. It is as unhelpful as a driver may be: work runs
// only when a wait() forces it, uploads read their source that late, device memory is out of the host's reach outside
// of a wait, shared memory too while work is under way, and pinned memory while a copy of it is (a touch ends the
// process), and memory ends at a given byte.
#pragma once
#include <cstdint>
#include <memory>

#include "backend/cuda/emulated/emulator.h"
#include "backend/cuda/runtime.h"

namespace quire::cuda {

struct FakeOptions {
  uint64_t seed = 0;                  // of the order in which threads and blocks run
  int64_t bytes = int64_t{64} << 30;  // of memory
  int shared_bytes = 227 << 10;       // that a block may have
  int major = 9;                      // of its compute capability; 9.0 sums as 10.x does
  emulated::Mutation mutation = {};   // a planted fault
  std::string* fault = nullptr;       // where a kernel's fault goes, instead of ending the process
};
std::shared_ptr<Runtime> make_fake_runtime(const FakeOptions& options);

// Of a kernel without a name.
template <class Kernel>
Launch unnamed_launch(const Kernel& kernel, Blocks blocks) {
  static_assert(sizeof(Kernel) <= Launch::kMaxArguments);
  Launch out{.body = [](const void* at) { (*static_cast<const Kernel*>(at))(); },
             .blocks = blocks,
             .n_threads = Kernel::kThreads,
             .shared_bytes = Kernel::kSharedBytes};
  std::memcpy(out.arguments.data(), &kernel, sizeof kernel);
  return out;
}

}  // namespace quire::cuda
