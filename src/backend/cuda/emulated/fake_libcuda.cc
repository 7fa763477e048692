#include "backend/cuda/emulated/fake_libcuda.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/driver/driver.h"
#include "backend/cuda/emulated/fake_call.h"

namespace quire {

void check_failed(const char* file, int line, const char* expr, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: %s %s\n", file, line, expr, detail.c_str());
  std::abort();
}

}  // namespace quire

namespace quire::cuda {

using namespace fake;

namespace {

bool is_event(const void* handle) {
  return std::ranges::any_of(g_events, [&](const char& event) { return &event == handle; });
}

int number_of_event(const void* handle) { return static_cast<int>(static_cast<const char*>(handle) - g_events); }

using Dim = std::array<unsigned, 3>;

int check_launch(const Function& function, const Dim& grid, const Dim& block, unsigned shared_bytes) {
  if (std::ranges::count(grid, 0U) > 0) return kInvalidValue;
  if (grid[0] >= 1U << 31 || grid[1] > 65535 || grid[2] > 65535) return kInvalidValue;
  if (block[1] != 1 || block[2] != 1 || block[0] == 0 || block[0] % 32 != 0) return kInvalidValue;
  if (block[0] > static_cast<unsigned>(function.kernel->n_threads)) return kTooManyThreads;
  return shared_bytes > static_cast<unsigned>(function.shared_bytes) ? kInvalidValue : 0;
}

}  // namespace
}  // namespace quire::cuda

using namespace quire::cuda;

// NOLINTBEGIN(readability-identifier-naming): the names of the driver's calls
extern "C" {

int cuMemFree_v2(uint64_t at);

void quire_fake_reset(const FakeDriver& options) {
  State& s = state();
  const std::lock_guard<std::mutex> held(s.lock);
  s.options = options;
  s.fault.clear();
  s.trace.clear();
  s.runtime.reset();
  s.is_ready = false;
  s.n_calls = s.dead = s.n_contexts = s.n_modules = s.n_streams = s.n_events = 0;
  s.regions.clear();
  s.functions.clear();
  s.is_capturing = false;
  s.captured.clear();
  s.beside.clear();
  s.graphs.clear();
  s.runnables.clear();
  t_context = nullptr;
}

void quire_fake_fail(int nth, int code) {
  State& s = state();
  const std::lock_guard<std::mutex> held(s.lock);
  s.options.failing_call = nth == 0 ? 0 : s.n_calls + nth;
  s.options.code = code;
}
void quire_fake_limit(int64_t bytes) {
  const std::lock_guard<std::mutex> held(state().lock);
  state().options.bytes = bytes;
}
int64_t quire_fake_used() {
  const std::lock_guard<std::mutex> held(state().lock);
  return state().used();
}
int quire_fake_calls() { return state().n_calls; }
int quire_fake_alive() {
  const State& s = state();
  return s.n_contexts + s.n_modules + s.n_streams + s.n_events +
         static_cast<int>(s.regions.size() + s.graphs.size() + s.runnables.size());
}
const char* quire_fake_trace() { return state().trace.c_str(); }

int cuInit(unsigned flags) {
  Call call("cuInit", Needs::nothing);
  if (call.is_refused()) return call.code();
  if (flags != 0) return kInvalidValue;
  if (call->options.n_devices == 0) return kNoDevice;
  if (call->is_ready) return 0;
  call->is_ready = true;
  call->runtime = make_emulated_runtime({.seed = call->options.seed, .fault = &call->fault});
  return 0;
}

int cuDriverGetVersion(int* version) {
  Call call("cuDriverGetVersion", Needs::nothing);
  if (!call.is_refused()) *version = call->options.version;
  return call.code();
}

int cuGetErrorName(int code, const char** name) {
  for (const ErrorName& known : kNames) {
    if (known.code != code) continue;
    *name = known.name;
    return 0;
  }
  return kInvalidValue;
}

int cuDeviceGetCount(int* n) {
  Call call("cuDeviceGetCount", Needs::driver);
  if (!call.is_refused()) *n = call->options.n_devices;
  return call.code();
}

int cuDeviceGet(int* device, int number) {
  Call call("cuDeviceGet", Needs::driver);
  if (call.is_refused()) return call.code();
  if (number < 0 || number >= call->options.n_devices) return kInvalidDevice;
  *device = number;
  return 0;
}

int cuDeviceGetName(char* name, int size, int) {
  Call call("cuDeviceGetName", Needs::driver);
  if (!call.is_refused()) std::snprintf(name, static_cast<size_t>(size), "a device of tests");
  return call.code();
}

int cuDeviceGetAttribute(int* value, int what, int) {
  Call call("cuDeviceGetAttribute", Needs::driver);
  if (call.is_refused()) return call.code();
  switch (what) {
    case 75: *value = call->options.major; return 0;
    case 76: *value = call->options.minor; return 0;
    case 97: *value = call->options.shared_bytes; return 0;
    case 16:
    case 83: *value = 1; return 0;
    default: return kInvalidValue;
  }
}

int cuDevicePrimaryCtxRetain(void** context, int) {
  Call call("cuDevicePrimaryCtxRetain", Needs::driver);
  if (call.is_refused()) return call.code();
  ++call->n_contexts;
  *context = &g_context;
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int) {
  Call call("cuDevicePrimaryCtxRelease_v2", Needs::driver);
  if (call.is_refused()) return call.code();
  if (call->n_contexts == 0) return kInvalidContext;
  --call->n_contexts;
  return 0;
}

int cuCtxSetCurrent(void* context) {
  Call call("cuCtxSetCurrent", Needs::driver);
  if (call.is_refused()) return call.code();
  if (context != &g_context) return kInvalidContext;
  t_context = context;
  return 0;
}

int cuModuleLoadData(void** module, const void* image) {
  Call call("cuModuleLoadData", Needs::context);
  if (call.is_refused()) return call.code();
  constexpr uint32_t kOfNvcc = 0xba55ed50;
  const bool is_known = std::strncmp(static_cast<const char*>(image), kFakeImage, sizeof kFakeImage) == 0 ||
                        std::memcmp(image, &kOfNvcc, sizeof kOfNvcc) == 0;
  if (!is_known) return kInvalidImage;
  ++call->n_modules;
  *module = &g_module;
  return 0;
}

int cuModuleUnload(void* module) {
  Call call("cuModuleUnload", Needs::context);
  if (call.is_refused()) return call.code();
  if (module != &g_module || call->n_modules == 0) return kInvalidHandle;
  --call->n_modules;
  return 0;
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  Call call("cuModuleGetFunction", Needs::context);
  if (call.is_refused()) return call.code();
  if (module != &g_module || call->n_modules == 0) return kInvalidHandle;
  const KernelBody* kernel = find_kernel(name);
  if (kernel != nullptr) *function = &(call->functions[name] = Function{kernel});
  return kernel != nullptr ? 0 : kNotFound;
}

int cuFuncSetAttribute(void* function, int what, int value) {
  Call call("cuFuncSetAttribute", Needs::context);
  if (call.is_refused()) return call.code();
  const int most = what == 8 ? call->options.shared_bytes : what == 9 ? 100 : -1;
  if (value < 0 || value > most) return kInvalidValue;
  if (what == 8) static_cast<Function*>(function)->shared_bytes = value;
  return 0;
}

int cuMemGetInfo_v2(size_t* left, size_t* all) {
  Call call("cuMemGetInfo_v2", Needs::context);
  if (call.is_refused()) return call.code();
  *all = static_cast<size_t>(call->options.bytes);
  *left = static_cast<size_t>(std::max<int64_t>(0, call->options.bytes - call->used()));
  return 0;
}

int cuMemAlloc_v2(uint64_t* at, size_t bytes) {
  Call call("cuMemAlloc_v2", Needs::context);
  return call.is_refused() ? call.code() : call.allocate(at, bytes, Place::device);
}

int cuMemAllocManaged(uint64_t* at, size_t bytes, unsigned flags) {
  Call call("cuMemAllocManaged", Needs::context);
  if (call.is_refused()) return call.code();
  return flags != 1 ? kInvalidValue : call.allocate(at, bytes, Place::shared);
}

int cuMemHostAlloc(void** at, size_t bytes, unsigned flags) {
  Call call("cuMemHostAlloc", Needs::context);
  if (call.is_refused()) return call.code();
  if (flags != 1) return kInvalidValue;
  uint64_t data = 0;
  const int code = call.allocate(&data, bytes, Place::pinned);
  if (code == 0) call->regions[data].is_cleared = true;
  *at = reinterpret_cast<void*>(data);
  return code;
}

int cuMemFreeHost(void* at) { return cuMemFree_v2(reinterpret_cast<uint64_t>(at)); }

// Waits for what is under way, as the driver does.
int cuMemFree_v2(uint64_t at) {
  Call call("cuMemFree_v2", Needs::context);
  if (call.is_refused()) return call.code();
  if (call->regions.erase(at) == 0) return kInvalidValue;
  for (int stream = 0; stream <= kCopyStreams; ++stream) call->runtime->wait_for_stream(stream);
  call->runtime->release(reinterpret_cast<std::byte*>(at));
  return 0;
}

// Memory is zeros when it is new; here it counts as cleared only when somebody clears the whole of it.
int cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, void* stream) {
  Call call("cuMemsetD8Async", Needs::context);
  if (call.is_refused()) return call.code();
  if (!call.has_stream(stream, 0)) return kInvalidHandle;
  if (call->is_capturing) return kCaptureUnsupported;
  const auto region = call->regions.find(at);
  if (region == call->regions.end() || value != 0 || static_cast<int64_t>(bytes) != region->second.bytes) {
    return kInvalidValue;
  }
  static constexpr char kZero = 0;
  call->runtime->upload(reinterpret_cast<std::byte*>(at), &kZero, 1);
  region->second.is_cleared = true;
  return 0;
}

// On the second stream of whole allocations alone, which are so cleared; on those beside from pinned memory alone: a
// driver would wait for other copies.
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  Call call("cuMemcpyHtoDAsync_v2", Needs::context);
  if (call.is_refused()) return call.code();
  const bool is_beside = call.has_stream(stream, 1), copies_beside = call.copies_beside(stream);
  if (!is_beside && !copies_beside && !call.has_stream(stream, 0)) return kInvalidHandle;
  if (call->is_capturing && !is_beside && !copies_beside) return kCaptureUnsupported;
  Region* region = call.region(to, static_cast<int64_t>(bytes));
  if (region == nullptr || from == nullptr) return kInvalidValue;
  if (copies_beside && !call.is_pinned(from, static_cast<int64_t>(bytes))) return kInvalidValue;
  if (is_beside) {
    if (region->bytes != static_cast<int64_t>(bytes)) return kInvalidValue;
    region->is_cleared = true;
    call->beside.push_back({to, from, bytes});
    return 0;
  }
  if (!region->is_cleared) return kIllegalAddress;
  call->runtime->copy_on(call.number_of(stream), reinterpret_cast<std::byte*>(to), from, static_cast<int64_t>(bytes));
  return 0;
}

int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  Call call("cuMemcpyDtoHAsync_v2", Needs::context);
  if (call.is_refused()) return call.code();
  const int number = call.number_of(stream);
  if (number < 0) return kInvalidHandle;
  if (call->is_capturing && number == 0) return kCaptureUnsupported;
  if (call.region(from, static_cast<int64_t>(bytes)) == nullptr || to == nullptr) return kInvalidValue;
  if (number > 0 && !call.is_pinned(to, static_cast<int64_t>(bytes))) return kInvalidValue;
  call->runtime->copy_on(number, static_cast<std::byte*>(to), reinterpret_cast<const void*>(from),
                         static_cast<int64_t>(bytes));
  return 0;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  Call call("cuMemcpyDtoDAsync_v2", Needs::context);
  if (call.is_refused()) return call.code();
  if (!call.has_stream(stream, 0)) return kInvalidHandle;
  if (call->is_capturing) return kCaptureUnsupported;
  const auto n = static_cast<int64_t>(bytes);
  const Region *target = call.region(to, n), *source = call.region(from, n);
  if (target == nullptr || source == nullptr) return kInvalidValue;
  if (!target->is_cleared || !source->is_cleared) return kIllegalAddress;
  call->runtime->copy(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), n);
  return 0;
}

int cuStreamCreate(void** stream, unsigned flags) {
  Call call("cuStreamCreate", Needs::context);
  if (call.is_refused()) return call.code();
  if (flags != 1 || call->n_streams == kMostStreams) return kInvalidValue;
  *stream = &g_streams[call->n_streams++];
  return 0;
}

int cuStreamDestroy_v2(void* stream) {
  Call call("cuStreamDestroy_v2", Needs::context);
  if (call.is_refused()) return call.code();
  if (!call.has_stream(stream, call->n_streams - 1)) return kInvalidHandle;  // the last one made
  call->runtime->wait_for_stream(std::max(call.number_of(stream), 0));
  --call->n_streams;
  return 0;
}

int cuStreamSynchronize(void* stream) {
  Call call("cuStreamSynchronize", Needs::context);
  if (call.is_refused()) return call.code();
  if (call.copies_beside(stream)) {
    call->runtime->wait_for_stream(call.number_of(stream));
    return call.fault();
  }
  const bool is_beside = call.has_stream(stream, 1);
  if (!is_beside && !call.has_stream(stream, 0)) return kInvalidHandle;
  if (call->is_capturing && !is_beside) return kCaptureUnsupported;
  call->runtime->wait();
  if (is_beside) {
    for (const Upload& one : std::exchange(call->beside, {})) {
      call->runtime->upload(reinterpret_cast<std::byte*>(one.to), one.from, static_cast<int64_t>(one.bytes));
    }
    call->runtime->wait();
  }
  return call.fault();
}

int cuEventCreate(void** event, unsigned flags) {
  Call call("cuEventCreate", Needs::context);
  if (call.is_refused()) return call.code();
  if (flags != 2 || call->n_events == EmulatedRuntime::kEvents) return kInvalidValue;
  *event = &g_events[call->n_events++];
  return 0;
}

int cuEventDestroy_v2(void* event) {
  Call call("cuEventDestroy_v2", Needs::context);
  if (call.is_refused()) return call.code();
  if (!is_event(event) || call->n_events == 0) return kInvalidHandle;
  --call->n_events;
  return 0;
}

int cuEventRecord(void* event, void* stream) {
  Call call("cuEventRecord", Needs::context);
  if (call.is_refused()) return call.code();
  const int number = call.number_of(stream);
  if (number < 0 || !is_event(event)) return kInvalidHandle;
  if (call->is_capturing && number == 0) return kCaptureUnsupported;
  call->runtime->set_event(number_of_event(event), number);
  return 0;
}

int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  Call call("cuStreamWaitEvent", Needs::context);
  if (call.is_refused()) return call.code();
  const int number = call.number_of(stream);
  if (number < 0 || !is_event(event)) return kInvalidHandle;
  if (flags != 0) return kInvalidValue;
  if (call->is_capturing && number == 0) return kCaptureUnsupported;
  call->runtime->put_behind_event(number, number_of_event(event));
  return 0;
}

int cuEventQuery(void* event) {
  Call call("cuEventQuery", Needs::context);
  if (call.is_refused()) return call.code();
  if (!is_event(event)) return kInvalidHandle;
  const bool has_happened = call->runtime->event_has_happened(number_of_event(event));
  if (const int fault = call.fault()) return fault;
  return has_happened ? 0 : int{kNotReady};
}

int cuEventSynchronize(void* event) {
  Call call("cuEventSynchronize", Needs::context);
  if (call.is_refused()) return call.code();
  if (!is_event(event)) return kInvalidHandle;
  call->runtime->wait_for_event(number_of_event(event));
  return call.fault();
}

int cuLaunchKernelEx(const LaunchConfig* config, void* function, void** arguments, void** extra) {
  Call call("cuLaunchKernelEx", Needs::context);
  if (call.is_refused()) return call.code();
  if (!call.has_stream(config->stream, 0) || function == nullptr) return kInvalidHandle;
  if (arguments == nullptr || arguments[0] == nullptr || extra != nullptr) return kInvalidValue;
  const bool may_begin_early = config->n_attributes == 1 && config->attributes->id == 6;
  if (config->n_attributes != 0 && (!may_begin_early || call->options.major < 9)) return kInvalidValue;
  const auto& known = *static_cast<Function*>(function);
  if (const int code = check_launch(known, config->blocks, config->threads, config->shared_bytes)) return code;
  if (!call.is_all_cleared()) return kIllegalAddress;
  Launch launch{.name = known.kernel->name,
                .blocks = {config->blocks[0], config->blocks[1], config->blocks[2]},
                .n_threads = static_cast<int>(config->threads[0]),
                .shared_bytes = static_cast<int>(config->shared_bytes)};
  std::memcpy(launch.arguments.data(), arguments[0], static_cast<size_t>(known.kernel->argument_bytes));
  if (call->is_capturing) {
    call->captured.push_back(launch);
  } else {
    call->runtime->launch(launch);
  }
  return 0;
}

int cuStreamBeginCapture_v2(void* stream, int mode) {
  Call call("cuStreamBeginCapture_v2", Needs::context);
  if (call.is_refused()) return call.code();
  if (!call.has_stream(stream, 0)) return kInvalidHandle;
  if (mode != 1 || call->is_capturing) return kInvalidValue;
  call->is_capturing = true;
  call->captured.clear();
  return 0;
}

int cuStreamEndCapture(void* stream, void** graph) {
  Call call("cuStreamEndCapture", Needs::context);
  if (call.is_refused()) return call.code();
  const bool was_capturing = std::exchange(call->is_capturing, false);
  if (!call.has_stream(stream, 0)) return kInvalidHandle;
  if (!was_capturing) return kInvalidValue;
  auto launches = std::make_unique<std::vector<Launch>>(std::exchange(call->captured, {}));
  *graph = launches.get();
  call->graphs[*graph] = std::move(launches);
  return 0;
}

int cuGraphInstantiateWithFlags(void** runnable, void* graph, unsigned long long flags) {
  Call call("cuGraphInstantiateWithFlags", Needs::context);
  if (call.is_refused()) return call.code();
  const auto found = call->graphs.find(graph);
  if (found == call->graphs.end()) return kInvalidHandle;
  if (flags != 0 || found->second->empty()) return kInvalidValue;
  if (!call->has_room(kGraphBytes)) return kOutOfMemory;
  *runnable = *call->runtime->record(*found->second);
  call->runnables.insert(*runnable);
  return 0;
}

int cuGraphDestroy(void* graph) {
  Call call("cuGraphDestroy", Needs::context);
  const bool was_there = call->graphs.erase(graph) == 1;
  return call.is_refused() ? call.code() : was_there ? 0 : kInvalidHandle;
}

int cuGraphLaunch(void* runnable, void* stream) {
  Call call("cuGraphLaunch", Needs::context);
  if (call.is_refused()) return call.code();
  if (!call.has_stream(stream, 0) || !call->runnables.contains(runnable)) return kInvalidHandle;
  if (call->is_capturing) return kCaptureUnsupported;
  if (!call.is_all_cleared()) return kIllegalAddress;
  call->runtime->replay(runnable);
  return 0;
}

int cuGraphExecDestroy(void* runnable) {
  Call call("cuGraphExecDestroy", Needs::context);
  if (call.is_refused()) return call.code();
  if (call->runnables.erase(runnable) == 0) return kInvalidHandle;
  call->runtime->wait();
  call->runtime->forget(runnable);
  return 0;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
