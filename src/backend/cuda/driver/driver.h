// NVIDIA's driver, opened at run time: a program that knows these calls starts on a machine without it. Only what the
// runtime uses is here; names, numbers and kinds of arguments are those of the driver's binary interface.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace quire::cuda {

using DevicePointer = uint64_t;
using Handle = void*;  // of a context, module, function, stream, event or graph

// How a kernel is launched, as the driver's interface lays it out.
struct LaunchAttribute {
  int id = 0;
  alignas(8) std::array<int, 16> value{};
};
struct LaunchConfig {
  std::array<unsigned, 3> blocks{}, threads{};
  unsigned shared_bytes = 0;
  Handle stream = nullptr;
  const LaunchAttribute* attributes = nullptr;
  unsigned n_attributes = 0;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

// A call and its address in the library. Each returns 0 or an error's number.
template <class... Arguments>
struct DriverCall {
  const char* name;
  int (*function)(Arguments...) = nullptr;
};

struct DriverCalls {
  DriverCall<unsigned> init{"cuInit"};
  DriverCall<int*> version{"cuDriverGetVersion"};
  DriverCall<int, const char**> error_name{"cuGetErrorName"};
  DriverCall<int*> count{"cuDeviceGetCount"};
  DriverCall<int*, int> device{"cuDeviceGet"};
  DriverCall<char*, int, int> device_name{"cuDeviceGetName"};
  DriverCall<int*, int, int> attribute{"cuDeviceGetAttribute"};
  DriverCall<Handle*, int> retain{"cuDevicePrimaryCtxRetain"};
  DriverCall<int> release{"cuDevicePrimaryCtxRelease_v2"};
  DriverCall<Handle> use{"cuCtxSetCurrent"};
  DriverCall<Handle*, const void*> load{"cuModuleLoadData"};
  DriverCall<Handle> unload{"cuModuleUnload"};
  DriverCall<Handle*, Handle, const char*> find{"cuModuleGetFunction"};
  DriverCall<Handle, int, int> set_function{"cuFuncSetAttribute"};
  DriverCall<size_t*, size_t*> memory{"cuMemGetInfo_v2"};
  DriverCall<DevicePointer*, size_t> allocate{"cuMemAlloc_v2"};
  DriverCall<DevicePointer*, size_t, unsigned> allocate_managed{"cuMemAllocManaged"};
  DriverCall<DevicePointer> free{"cuMemFree_v2"};
  DriverCall<void**, size_t, unsigned> allocate_pinned{"cuMemHostAlloc"};
  DriverCall<void*> free_pinned{"cuMemFreeHost"};
  DriverCall<DevicePointer, unsigned char, size_t, Handle> fill{"cuMemsetD8Async"};
  DriverCall<DevicePointer, const void*, size_t, Handle> upload{"cuMemcpyHtoDAsync_v2"};
  DriverCall<void*, DevicePointer, size_t, Handle> download{"cuMemcpyDtoHAsync_v2"};
  DriverCall<DevicePointer, DevicePointer, size_t, Handle> copy{"cuMemcpyDtoDAsync_v2"};
  DriverCall<Handle*, unsigned> make_stream{"cuStreamCreate"};
  DriverCall<Handle> end_stream{"cuStreamDestroy_v2"};
  DriverCall<Handle> wait{"cuStreamSynchronize"};
  DriverCall<const LaunchConfig*, Handle, void**, void**> launch{"cuLaunchKernelEx"};
  DriverCall<Handle*, unsigned> make_event{"cuEventCreate"};
  DriverCall<Handle> end_event{"cuEventDestroy_v2"};
  DriverCall<Handle, Handle> record_event{"cuEventRecord"};
  DriverCall<Handle> wait_for_event{"cuEventSynchronize"};
  DriverCall<Handle> ask_event{"cuEventQuery"};
  DriverCall<Handle, Handle, unsigned> wait_on_device{"cuStreamWaitEvent"};
  DriverCall<Handle, int> begin_capture{"cuStreamBeginCapture_v2"};
  DriverCall<Handle, Handle*> end_capture{"cuStreamEndCapture"};
  DriverCall<Handle*, Handle, unsigned long long> make_runnable{"cuGraphInstantiateWithFlags"};
  DriverCall<Handle> end_graph{"cuGraphDestroy"};
  DriverCall<Handle, Handle> launch_graph{"cuGraphLaunch"};
  DriverCall<Handle> end_runnable{"cuGraphExecDestroy"};
};

// Numbers of the driver's interface.
enum : int {
  kOutOfMemory = 2,
  kNotReady = 600,           // of an event: not an error
  kAskMultiprocessors = 16,  // what cuDeviceGetAttribute is asked for
  kAskComputeMajor = 75,
  kAskComputeMinor = 76,
  kAskManagedMemory = 83,
  kAskSharedBytes = 97,  // of a block that asks for them
  kSetSharedBytes = 8,   // what cuFuncSetAttribute sets
  kSetSharedShare = 9,   // in percent, of the memory that caches and shared memory divide
  kMayBeginEarly = 6,    // of a launch: while the kernel ahead runs; it waits for that one's end itself
};
inline constexpr unsigned kAttachGlobal = 1;  // managed memory: every stream may use it
inline constexpr unsigned kPortable = 1;      // pinned memory: of every context
inline constexpr unsigned kNonBlocking = 1;   // a stream: does not wait for the default one
inline constexpr unsigned kWithoutTime = 2;   // an event: nobody asks when it was
inline constexpr int kOfThisThread = 1;       // a capture: what other threads ask for goes on

class Driver {
 public:
  // Opens `library` for the rest of the process. Code::unsupported where it cannot be opened or lacks a call.
  static Result<Driver> open(const std::string& library);

  // Code::exhausted where memory ended, else Code::internal; the message names the call and the driver's error.
  template <class... Arguments, class... Given>
  Status run(const DriverCall<Arguments...>& call, Given... given) const {
    const int code = call.function(given...);
    if (code == 0) return {};
    return error(call.name, code);
  }
  // Whether what is before the event has happened.
  Result<bool> ask(Handle event) const {
    const int code = calls_.ask_event.function(event);
    if (code == 0 || code == kNotReady) return code == 0;
    return error(calls_.ask_event.name, code);
  }

  const DriverCalls& calls() const { return calls_; }

 private:
  tl::unexpected<Error> error(const char* call, int code) const;
  DriverCalls calls_;
};

}  // namespace quire::cuda
