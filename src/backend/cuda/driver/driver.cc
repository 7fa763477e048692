#include "backend/cuda/driver/driver.h"

#include <dlfcn.h>

namespace quire::cuda {
namespace {

// Looks calls up until one is not there.
struct Finder {
  void* library;
  const char* missing = nullptr;

  template <class... Calls>
  void find(Calls&... calls) {
    (find_one(calls), ...);
  }
  template <class... Arguments>
  void find_one(DriverCall<Arguments...>& call) {
    void* address = ::dlsym(library, call.name);
    if (address == nullptr && missing == nullptr) missing = call.name;
    call.function = reinterpret_cast<int (*)(Arguments...)>(address);
  }
};

}  // namespace

Result<Driver> Driver::open(const std::string& library) {
  void* opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* why = ::dlerror();
    return fail(Code::unsupported, "NVIDIA's driver cannot be opened: " + std::string(why != nullptr ? why : library));
  }
  Driver driver;
  DriverCalls& c = driver.calls_;
  Finder finder{opened};
  finder.find(c.init, c.version, c.error_name, c.count, c.device, c.device_name, c.attribute, c.retain, c.release,
              c.use, c.load, c.unload, c.find, c.set_function, c.memory, c.allocate, c.allocate_managed, c.free, c.fill,
              c.allocate_pinned, c.free_pinned, c.upload, c.download, c.copy, c.make_stream, c.end_stream, c.wait,
              c.launch, c.make_event, c.end_event, c.record_event, c.wait_for_event, c.ask_event, c.wait_on_device,
              c.begin_capture, c.end_capture, c.make_runnable, c.end_graph, c.launch_graph, c.end_runnable);
  if (finder.missing == nullptr) return driver;
  return fail(Code::unsupported, library + " has no " + finder.missing + ": NVIDIA's driver is too old");
}

tl::unexpected<Error> Driver::error(const char* call, int code) const {
  const char* name = nullptr;
  if (calls_.error_name.function(code, &name) != 0 || name == nullptr) name = "an unknown error";
  return fail(code == kOutOfMemory ? Code::exhausted : Code::internal,
              std::string(call) + ": " + name + " (" + std::to_string(code) + ")");
}

}  // namespace quire::cuda
