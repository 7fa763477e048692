// What a call of the driver for tests (fake_libcuda.cc) does whichever it is, and what they all know.
#pragma once
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cuda/emulated/fake_errors.h"
#include "backend/cuda/emulated/fake_libcuda.h"
#include "backend/cuda/emulated/kernel_bodies.h"
#include "backend/cuda/emulated/runtime_fake.h"

namespace quire::cuda::fake {

inline constexpr size_t kMostTrace = 1 << 20;

struct Function {
  const KernelBody* kernel;
  int shared_bytes = 48 << 10;
};

struct Region {
  int64_t bytes;
  Place place;
  bool is_cleared = false;
  std::thread::id owner = std::this_thread::get_id();  // who allocated it
};

struct Upload {
  uint64_t to;
  const void* from;
  size_t bytes;
};

inline constexpr int64_t kGraphBytes = 48 << 10;  // that a graph which can be launched takes here
inline constexpr int kMostStreams = 4;            // the first, one that loads beside it, two that copy beside it

struct State {
  std::mutex lock;
  FakeDriver options;
  std::string fault, trace;
  std::shared_ptr<EmulatedRuntime> runtime;
  bool is_ready = false;
  int n_calls = 0, dead = 0;  // dead: what every call returns after a kernel went wrong
  int n_contexts = 0, n_modules = 0, n_streams = 0, n_events = 0;
  std::map<uint64_t, Region> regions;
  std::map<std::string, Function> functions;
  bool is_capturing = false;  // the first stream
  std::vector<Launch> captured;
  std::vector<Upload> beside;  // on the second stream
  std::map<void*, std::unique_ptr<std::vector<Launch>>> graphs;
  std::set<void*> runnables;  // graphs of the runtime

  int64_t used() const {
    int64_t bytes = std::ssize(runnables) * kGraphBytes;
    for (const auto& [at, region] : regions) bytes += region.bytes;
    return bytes;
  }
  bool has_room(int64_t bytes) const { return bytes <= options.bytes - used(); }
};

inline State& state() {
  static State one;
  return one;
}
inline thread_local void* t_context = nullptr;
inline char g_context, g_module, g_streams[kMostStreams], g_events[EmulatedRuntime::kEvents];  // what handles point to

enum class Needs : uint8_t { nothing, driver, context };

// A call: locked, counted, and refused where it is the one that fails or comes too early.
class Call {
 public:
  Call(const char* name, Needs needs) : s_(state()), held_(s_.lock) {
    if (s_.trace.size() < kMostTrace) s_.trace += name + std::string(" ");
    if (++s_.n_calls == s_.options.failing_call)
      code_ = s_.options.code;
    else if (s_.dead != 0)
      code_ = s_.dead;
    else if (needs != Needs::nothing && !s_.is_ready)
      code_ = kNotInitialised;
    else if (needs == Needs::context && (t_context != &g_context || s_.n_contexts == 0))
      code_ = kInvalidContext;
  }
  bool is_refused() const { return code_ != 0; }
  int code() const { return code_; }
  State* operator->() { return &s_; }

  // What a kernel that went wrong makes of the device.
  int fault() {
    if (s_.fault.empty()) return 0;
    std::fprintf(stderr, "the emulated device: %s\n", s_.fault.c_str());
    return s_.dead = kLaunchFailed;
  }

  // The range lies in memory that is alive.
  Region* region(uint64_t at, int64_t bytes) {
    auto found = s_.regions.upper_bound(at);
    if (found == s_.regions.begin()) return nullptr;
    --found;
    const bool is_in = at + static_cast<uint64_t>(bytes) <= found->first + static_cast<uint64_t>(found->second.bytes);
    return is_in ? &found->second : nullptr;
  }
  // What another thread allocated may be on its way to be.
  bool is_all_cleared() const {
    for (const auto& [at, region] : s_.regions) {
      if (!region.is_cleared && region.owner == std::this_thread::get_id()) return false;
    }
    return true;
  }
  bool has_stream(const void* stream, int number) const {
    return stream == &g_streams[number] && s_.n_streams > number;
  }
  // The runtime's number of a stream that events are set on and waited for; −1: it is none of them.
  int number_of(const void* stream) const {
    for (const auto& [driver, runtime] : {std::pair{0, 0}, {2, 1}, {3, 2}}) {
      if (has_stream(stream, driver)) return runtime;
    }
    return -1;
  }
  // Of the streams that copy beside the first, towards the device or from it.
  bool copies_beside(const void* stream) const { return number_of(stream) > 0; }
  bool is_pinned(const void* at, int64_t bytes) {
    const Region* found = region(reinterpret_cast<uint64_t>(at), bytes);
    return found != nullptr && found->place == Place::pinned;
  }
  int allocate(uint64_t* out, size_t bytes, Place place) {
    if (bytes == 0) return kInvalidValue;
    if (!s_.has_room(static_cast<int64_t>(bytes))) return kOutOfMemory;
    const Result<std::byte*> got = s_.runtime->allocate(static_cast<int64_t>(bytes), place);
    if (!got) return kOutOfMemory;
    *out = reinterpret_cast<uint64_t>(*got);
    s_.regions[*out] = {.bytes = static_cast<int64_t>(bytes), .place = place};
    return 0;
  }

 private:
  State& s_;
  std::lock_guard<std::mutex> held_;
  int code_ = 0;
};

}  // namespace quire::cuda::fake
