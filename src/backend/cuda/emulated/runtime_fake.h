// A runtime without a device, for tests: kernels run in the emulator. It is as unhelpful as a driver may be: work runs
// only when a wait forces it, streams beside each other in an order of the seed (streams.h), uploads read their source
// that late, device memory is out of the host's reach outside of a wait, shared memory too while work is under way, and
// pinned memory while a copy of it is (a touch ends the process), and memory ends at a given byte.
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
  int n_multiprocessors = 1;
  int major = 9;                     // of its compute capability; 9.0 sums as 10.x does
  emulated::Mutation mutation = {};  // a planted fault
  std::string* fault = nullptr;      // where a kernel's fault goes, instead of ending the process
  bool forgets_put_behind = false;   // planted faults: streams go on without waiting for one another
  bool forgets_wait_on_device = false;
};

// The runtime with its streams and events by number, as the driver for tests needs them. Stream 0 is the first,
// 1 + CopyStream those of copies; events are free to be used.
class EmulatedRuntime : public Runtime {
 public:
  static constexpr int kEvents = kMarks + kCopyStreams * kCopyMarks + 1;
  virtual void copy_on(int stream, std::byte* to, const void* from, int64_t bytes) = 0;
  virtual void set_event(int event, int stream) = 0;
  virtual void put_behind_event(int stream, int event) = 0;  // as the event is set now
  virtual bool event_has_happened(int event) = 0;            // or the seed lets it happen now
  virtual void wait_for_event(int event) = 0;
  virtual void wait_for_stream(int stream) = 0;
};
std::shared_ptr<EmulatedRuntime> make_emulated_runtime(const FakeOptions& options);
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
