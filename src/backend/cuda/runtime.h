// What the backend asks of a device and its driver: memory, copies, kernels, one stream of work in order, and two of
// copies beside it. Nothing that was asked for need have happened before wait() returns. Owner: the thread that
// computes; release() on any thread while no work is under way (on the streams beside: of that memory), load() at any
// time.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace quire::cuda {

// device: kernels alone reach it. shared: the host does too, from a wait() until the next launch or copy. pinned: the
// host's, for copies to and from a device: while one is under way the host only reads what it copies from, and does not
// touch what it copies to.
enum class Place : uint8_t { device, shared, pinned };

struct Blocks {
  int64_t x = 1, y = 1, z = 1;
  bool operator==(const Blocks&) const = default;
};

// A kernel, by its name in compiled modules, and the arguments that it begins with.
struct Launch {
  static constexpr size_t kMaxArguments = 256;
  const char* name = nullptr;
  void (*body)(const void* arguments) =
      nullptr;  // one thread of a kernel without a name: the emulator's tests have such
  alignas(16) std::array<std::byte, kMaxArguments> arguments{};
  Blocks blocks;
  int n_threads = 0, shared_bytes = 0;
};

inline constexpr int kMarks = 2;

// Streams of copies, each in order, beside the one of all else.
enum class CopyStream : uint8_t { in, out };            // to the device, from it
inline constexpr int kCopyStreams = 2, kCopyMarks = 8;  // marks: of each

using Graph = void*;  // launches that were recorded, of the runtime that recorded them

// What a device has.
struct DeviceSize {
  int n_multiprocessors = 1;
  int shared_bytes = 0;  // of shared memory, for a block; a kernel that wants more cannot be launched
  int major = 0;         // of its compute capability, the number before the point
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual std::string describe() const = 0;  // one line for people
  virtual DeviceSize size() const = 0;
  // Aligned to 256 bytes, zero-filled. Code::exhausted names the size and what is left.
  virtual Result<std::byte*> allocate(int64_t bytes, Place place) = 0;
  virtual void release(std::byte* data) = 0;
  // Memory of the device that holds these bytes when it returns. Any thread, whatever is under way; release() likewise,
  // once nothing that was asked for reads it. Errors as allocate()'s, and the driver's.
  virtual Result<std::byte*> load(std::span<const std::byte> bytes) = 0;
  virtual int64_t free_bytes() = 0;  // of the device's memory; any thread
  // `from` stays as it is until the next wait() has returned.
  virtual void upload(std::byte* to, const void* from, int64_t bytes) = 0;
  virtual void download(std::byte* to, const void* from, int64_t bytes) = 0;   // to pinned memory
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes) = 0;  // within the device's memory
  virtual void launch(const Launch& launch) = 0;
  // Launches in this order as one, which replay() asks for again with the arguments that they have now. An error is the
  // driver's; nothing is kept then. forget() while no work is under way.
  virtual Result<Graph> record(std::span<const Launch> launches) = 0;
  virtual void replay(Graph graph) = 0;
  virtual void forget(Graph graph) = 0;
  // Everything asked for before has happened. A device that is dead, or a kernel that went wrong, aborts with its line.
  virtual void wait() = 0;
  // Behind what was asked for so far. `mark` is below kMarks, and stands where it was set last.
  virtual void set_mark(int mark) = 0;
  // Everything before that mark has happened; what was asked for behind it may be under way, so memory that is shared
  // stays out of the host's reach. Else as wait().
  virtual void wait_for(int mark) = 0;

  // The streams beside. What these return is the failure of the copies alone: take_error() does not know of it, and all
  // else goes on. Behind one, wait_beside(stream) says when memory may be used again; what had not happened before
  // counts as failed.
  //
  // From pinned memory to the device's, or back, as the stream says; then sets that mark of the stream, below
  // kCopyMarks.
  virtual Status copy_beside(CopyStream stream, std::byte* to, const std::byte* from, int64_t bytes, int mark) = 0;
  // What is asked of `stream` from now on comes behind all else that was asked for so far.
  virtual Status put_behind(CopyStream stream) = 0;
  // All else that is asked for from now on comes behind that mark.
  virtual Status wait_on_device(CopyStream stream, int mark) = 0;
  // Whether everything before that mark has happened, without waiting.
  virtual Result<bool> has_happened(CopyStream stream, int mark) = 0;
  // Waits for that mark alone; for everything on the stream. A device that is dead ends the process.
  virtual Status wait_beside(CopyStream stream, int mark) = 0;
  virtual Status wait_beside(CopyStream stream) = 0;

  // Nothing has failed so far that take_error() would tell of.
  virtual bool is_well() const = 0;
  // The first failure since it was asked the last time of a copy, a launch, a replay or a wait on a device that is
  // alive. What was asked for behind it was not done, and nothing is until somebody has taken the error. REQUIRES
  // wait() before.
  virtual Status take_error() = 0;
};

// kValue: its name. Kernels that stand in kernels/list.cuh have one; no other can be launched.
template <class Kernel>
struct KernelName;

template <class Kernel>
Launch launch_of(const Kernel& kernel, Blocks blocks) {
  static_assert(sizeof(Kernel) <= Launch::kMaxArguments);
  Launch out{.name = KernelName<Kernel>::kValue,
             .blocks = blocks,
             .n_threads = Kernel::kThreads,
             .shared_bytes = Kernel::kSharedBytes};
  std::memcpy(out.arguments.data(), &kernel, sizeof kernel);
  return out;
}

// The device that a program computes on, or the emulated one. Code::unsupported says why there is none.
Result<std::shared_ptr<Runtime>> open_runtime();

}  // namespace quire::cuda
