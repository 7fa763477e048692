#include "backend/cuda/driver/runtime_cuda.h"

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "backend/cuda/driver/driver.h"
#include "backend/cuda/kernels/list.cuh"
#include "base/check.h"

namespace quire::cuda {
namespace {

constexpr std::string_view kArchitectures = "for compute capability 8.x, 9.0, 10.x and 12.x";  // cmake/cuda.cmake
constexpr int kLeastMajor = 8, kCompiledBy = 13'000;  // compute capability; CUDA's version
constexpr int kPlainShared = 48 << 10;  // bytes of shared memory that a kernel has without being asked for more

struct Known {
  const char* name;
  int shared_bytes;
};
#define QR_KNOWN(name, Kernel) Known{KernelName<Kernel>::kValue, Kernel::kSharedBytes},
constexpr Known kKnown[] = {QR_KERNELS(QR_KNOWN)};
#undef QR_KNOWN

void expect(const Status& status) {
  if (!status) check_failed(__FILE__, __LINE__, "the CUDA device is lost", status.error().message);
}

std::byte* pointer(DevicePointer at) { return reinterpret_cast<std::byte*>(at); }
DevicePointer address(const std::byte* at) { return reinterpret_cast<DevicePointer>(at); }

class DriverRuntime final : public Runtime {
 public:
  explicit DriverRuntime(const Driver& driver) : driver_(driver), calls_(driver_.calls()) {}
  DriverRuntime(const DriverRuntime&) = delete;
  DriverRuntime& operator=(const DriverRuntime&) = delete;

  // What was opened is closed, whatever the driver says to it: nobody is left to tell.
  ~DriverRuntime() override {
    if (context_ == nullptr) return;
    static_cast<void>(twice([&] { return driver_.run(calls_.use, context_); }));
    for_each_event([&](Handle event) {
      if (event != nullptr) static_cast<void>(twice([&] { return driver_.run(calls_.end_event, event); }));
    });
    for (const Handle stream : {beside_[1].stream, beside_[0].stream, loading_, stream_}) {
      if (stream != nullptr) static_cast<void>(twice([&] { return driver_.run(calls_.end_stream, stream); }));
    }
    if (module_ != nullptr) static_cast<void>(twice([&] { return driver_.run(calls_.unload, module_); }));
    static_cast<void>(twice([&] { return driver_.run(calls_.release, device_); }));
  }

  Status open(std::span<const std::byte> image) {
    QR_TRY_VOID(find_device());
    QR_TRY_VOID(driver_.run(calls_.retain, &context_, device_));
    QR_TRY_VOID(driver_.run(calls_.use, context_));
    QR_TRY_VOID(load_module(image));
    Status made;
    for_each_event([&](Handle& event) {
      if (made) made = driver_.run(calls_.make_event, &event, kWithoutTime);
    });
    for (Handle* stream : {&stream_, &loading_, &beside_[0].stream, &beside_[1].stream}) {
      if (made) made = driver_.run(calls_.make_stream, stream, kNonBlocking);
    }
    return made;
  }

  std::string describe() const override { return description_; }
  DeviceSize size() const override { return size_; }

  Result<std::byte*> allocate(int64_t bytes, Place place) override {
    QR_CHECK(bytes > 0);
    const auto n = static_cast<size_t>(bytes);
    DevicePointer at = 0;
    QR_TRY_VOID(use_context());
    if (place == Place::pinned) return allocate_pinned(n);
    const Status got = place == Place::device ? driver_.run(calls_.allocate, &at, n)
                                              : driver_.run(calls_.allocate_managed, &at, n, kAttachGlobal);
    if (!got) return tl::make_unexpected(without_memory(got.error(), bytes));
    Status cleared = driver_.run(calls_.fill, at, static_cast<unsigned char>(0), n, stream_);
    if (cleared) cleared = driver_.run(calls_.wait, stream_);  // shared memory is the host's until the next launch
    if (cleared) return pointer(at);
    static_cast<void>(twice([&] { return driver_.run(calls_.free, at); }));
    return tl::make_unexpected(cleared.error());
  }

  // The other stream may be under way, or be recorded.
  Result<std::byte*> load(std::span<const std::byte> bytes) override {
    DevicePointer at = 0;
    QR_TRY_VOID(use_context());
    const Status got = driver_.run(calls_.allocate, &at, bytes.size());
    if (!got) return tl::make_unexpected(without_memory(got.error(), std::ssize(bytes)));
    Status done = driver_.run(calls_.upload, at, static_cast<const void*>(bytes.data()), bytes.size(), loading_);
    if (done) done = twice([&] { return driver_.run(calls_.wait, loading_); });
    if (done) return pointer(at);
    static_cast<void>(twice([&] { return driver_.run(calls_.free, at); }));
    return tl::make_unexpected(done.error());
  }

  void release(std::byte* data) override {
    expect(twice([&] { return use_context(); }));
    const std::lock_guard<std::mutex> held(lock_);
    const bool is_pinned = pinned_.erase(data) > 0;
    expect(twice([&] {
      return is_pinned ? driver_.run(calls_.free_pinned, static_cast<void*>(data))
                       : driver_.run(calls_.free, address(data));
    }));
  }

  void upload(std::byte* to, const void* from, int64_t bytes) override {
    ask([&] { return driver_.run(calls_.upload, address(to), from, static_cast<size_t>(bytes), stream_); });
  }

  void download(std::byte* to, const void* from, int64_t bytes) override {
    ask([&] {
      return driver_.run(calls_.download, static_cast<void*>(to), reinterpret_cast<DevicePointer>(from),
                         static_cast<size_t>(bytes), stream_);
    });
  }

  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    ask([&] { return driver_.run(calls_.copy, address(to), address(from), static_cast<size_t>(bytes), stream_); });
  }

  int64_t free_bytes() override {
    size_t left = 0, all = 0;
    const auto find = [&] {
      const Status used = use_context();
      return used ? driver_.run(calls_.memory, &left, &all) : used;
    };
    return twice(find) ? static_cast<int64_t>(left) : 0;
  }

  void launch(const Launch& launch) override {
    ask([&] { return ask_for(launch); });
  }

  Result<Graph> record(std::span<const Launch> launches) override {
    QR_TRY_VOID(use_context());
    QR_TRY_VOID(driver_.run(calls_.begin_capture, stream_, int{kOfThisThread}));
    Status recorded;
    for (const Launch& launch : launches) {
      if (recorded) recorded = ask_for(launch);
    }
    Handle graph = nullptr, runnable = nullptr;
    // In any case, and again where it is refused: else the stream stays captured.
    const auto end = [&] { return driver_.run(calls_.end_capture, stream_, &graph); };
    Status ended = end();
    if (!ended && end()) ended = {};
    if (recorded) recorded = ended;
    if (recorded) recorded = driver_.run(calls_.make_runnable, &runnable, graph, 0ULL);
    if (graph != nullptr) static_cast<void>(twice([&] { return driver_.run(calls_.end_graph, graph); }));
    if (!recorded) return tl::make_unexpected(recorded.error());
    return runnable;
  }

  void replay(Graph graph) override {
    ask([&] { return driver_.run(calls_.launch_graph, graph, stream_); });
  }

  void forget(Graph graph) override {
    expect(twice([&] { return use_context(); }));
    expect(twice([&] { return driver_.run(calls_.end_runnable, graph); }));
  }

  void wait() override {
    expect_twice([&] { return driver_.run(calls_.wait, stream_); });
  }

  // Where it cannot be set, what waits for it waits for an earlier one: asked_ says so.
  void set_mark(int mark) override {
    ask([&] { return driver_.run(calls_.record_event, marks_.at(static_cast<size_t>(mark)), stream_); });
  }

  void wait_for(int mark) override {
    expect_twice([&] { return driver_.run(calls_.wait_for_event, marks_.at(static_cast<size_t>(mark))); });
  }

  Status copy_beside(CopyStream stream, std::byte* to, const std::byte* from, int64_t bytes, int mark) override {
    QR_TRY_VOID(use_context());
    const Handle on = beside(stream).stream;
    const auto n = static_cast<size_t>(bytes);
    QR_TRY_VOID(stream == CopyStream::in
                    ? driver_.run(calls_.upload, address(to), static_cast<const void*>(from), n, on)
                    : driver_.run(calls_.download, static_cast<void*>(to), address(from), n, on));
    return driver_.run(calls_.record_event, mark_of(stream, mark), on);
  }

  Status put_behind(CopyStream stream) override {
    QR_TRY_VOID(use_context());
    QR_TRY_VOID(driver_.run(calls_.record_event, behind_, stream_));
    return driver_.run(calls_.wait_on_device, beside(stream).stream, behind_, 0U);
  }

  Status wait_on_device(CopyStream stream, int mark) override {
    QR_TRY_VOID(use_context());
    return driver_.run(calls_.wait_on_device, stream_, mark_of(stream, mark), 0U);
  }

  Result<bool> has_happened(CopyStream stream, int mark) override {
    QR_TRY_VOID(use_context());
    return driver_.ask(mark_of(stream, mark));
  }

  Status wait_beside(CopyStream stream, int mark) override {
    return wait_twice([&] { return driver_.run(calls_.wait_for_event, mark_of(stream, mark)); });
  }

  Status wait_beside(CopyStream stream) override {
    return wait_twice([&] { return driver_.run(calls_.wait, beside(stream).stream); });
  }

  bool is_well() const override { return asked_.has_value(); }

  Status take_error() override { return std::exchange(asked_, {}); }

 private:
  // Behind a failure nothing is asked for.
  template <class F>
  void ask(const F& call) {
    if (asked_) asked_ = use_context();
    if (asked_) asked_ = call();
  }
  // What a dead device says to one wait it says to the next, and the process ends. What the first one said.
  template <class F>
  Status wait_twice(const F& wait) {
    const auto wait_once = [&] {
      const Status used = use_context();
      return used ? wait() : used;
    };
    Status waited = wait_once();
    if (!waited) expect(wait_once());
    return waited;
  }
  template <class F>
  void expect_twice(const F& wait) {
    const Status waited = wait_twice(wait);
    if (!waited && asked_) asked_ = waited;
  }
  // What must be given back or stays for ever is tried again where the driver refuses once.
  template <class F>
  static Status twice(const F& call) {
    const Status first = call();
    return first ? first : call();
  }

  // The driver copies the arguments before it returns.
  Status ask_for(const Launch& launch) const {
    const auto function = functions_.find(launch.name);
    QR_CHECK(function != functions_.end(), launch.name);
    std::array<void*, 1> arguments = {const_cast<std::byte*>(launch.arguments.data())};
    const Blocks& b = launch.blocks;
    const LaunchConfig config{
        .blocks = {static_cast<unsigned>(b.x), static_cast<unsigned>(b.y), static_cast<unsigned>(b.z)},
        .threads = {static_cast<unsigned>(launch.n_threads), 1, 1},
        .shared_bytes = static_cast<unsigned>(launch.shared_bytes),
        .stream = stream_,
        .attributes = &early_,
        .n_attributes = begins_early_ ? 1U : 0U};
    return driver_.run(calls_.launch, &config, function->second, arguments.data(), nullptr);
  }

  // Of this thread; once, while it uses no other.
  Status use_context() const {
    thread_local uint64_t t_user = 0;
    if (t_user == number_) return {};
    QR_TRY_VOID(driver_.run(calls_.use, context_));
    t_user = number_;
    return {};
  }

  // A stream of copies and its marks.
  struct Beside {
    Handle stream = nullptr;
    std::array<Handle, kCopyMarks> marks{};
  };
  const Beside& beside(CopyStream stream) const { return beside_.at(static_cast<size_t>(stream)); }
  Handle mark_of(CopyStream stream, int mark) const { return beside(stream).marks.at(static_cast<size_t>(mark)); }
  template <class F>
  void for_each_event(const F& f) {
    for (Handle& event : marks_) f(event);
    for (Beside& of : beside_) {
      for (Handle& event : of.marks) f(event);
    }
    f(behind_);
  }

  Result<std::byte*> allocate_pinned(size_t bytes) {
    void* data = nullptr;
    const Status got = driver_.run(calls_.allocate_pinned, &data, bytes, unsigned{kPortable});
    if (!got) return fail(got.error().code, "cannot pin " + std::to_string(bytes) + " bytes: " + got.error().message);
    std::memset(data, 0, bytes);
    const std::lock_guard<std::mutex> held(lock_);
    pinned_.insert(static_cast<std::byte*>(data));
    return static_cast<std::byte*>(data);
  }

  Status find_device() {
    int n = 0, minor = 0, is_managed = 0;
    int& major = size_.major;
    std::array<char, 128> name{};
    QR_TRY_VOID(driver_.run(calls_.init, 0U));
    QR_TRY_VOID(driver_.run(calls_.version, &version_));
    QR_TRY_VOID(driver_.run(calls_.count, &n));
    if (n < 1) return fail(Code::unsupported, "cuDeviceGetCount: the driver shows no device");
    QR_TRY_VOID(driver_.run(calls_.device, &device_, 0));
    QR_TRY_VOID(driver_.run(calls_.device_name, name.data(), static_cast<int>(name.size()) - 1, device_));
    QR_TRY_VOID(driver_.run(calls_.attribute, &major, int{kAskComputeMajor}, device_));
    QR_TRY_VOID(driver_.run(calls_.attribute, &minor, int{kAskComputeMinor}, device_));
    QR_TRY_VOID(driver_.run(calls_.attribute, &is_managed, int{kAskManagedMemory}, device_));
    QR_TRY_VOID(driver_.run(calls_.attribute, &size_.n_multiprocessors, int{kAskMultiprocessors}, device_));
    QR_TRY_VOID(driver_.run(calls_.attribute, &size_.shared_bytes, int{kAskSharedBytes}, device_));
    const std::string capability = std::to_string(major) + "." + std::to_string(minor);
    description_ = std::string(name.data()) + ", compute capability " + capability + ", driver for CUDA " +
                   std::to_string(version_ / 1000) + "." + std::to_string(version_ % 1000 / 10);
    if (major < kLeastMajor) {
      return fail(Code::unsupported, "the kernels need compute capability " + std::to_string(kLeastMajor) +
                                         ".0 or more, the device has " + capability);
    }
    begins_early_ = major >= 9;
    if (is_managed == 0) return fail(Code::unsupported, "the device has no managed memory");
    return {};
  }

  Status load_module(std::span<const std::byte> image) {
    const Status loaded = driver_.run(calls_.load, &module_, static_cast<const void*>(image.data()));
    if (!loaded) {
      return fail(loaded.error().code == Code::exhausted ? Code::exhausted : Code::unsupported,
                  loaded.error().message + " on " + description_ + "; this program's kernels are " +
                      std::string(kArchitectures) +
                      (version_ < kCompiledBy ? ", compiled by CUDA 13.0, which wants driver 580 or later" : ""));
    }
    for (const Known& kernel : kKnown) {
      Handle& function = functions_[kernel.name];
      QR_TRY_VOID(driver_.run(calls_.find, &function, module_, kernel.name));
      // All alike: a kernel that wants another share cannot begin before the one ahead has left the multiprocessor.
      QR_TRY_VOID(driver_.run(calls_.set_function, function, int{kSetSharedShare}, 100));
      if (kernel.shared_bytes <= kPlainShared || kernel.shared_bytes > size_.shared_bytes) continue;
      QR_TRY_VOID(driver_.run(calls_.set_function, function, int{kSetSharedBytes}, kernel.shared_bytes));
    }
    return {};
  }

  Error without_memory(Error error, int64_t bytes) const {
    size_t left = 0, all = 0;
    error.message = "cannot allocate " + std::to_string(bytes) + " bytes on the device: " + error.message;
    if (driver_.run(calls_.memory, &left, &all)) error.message += ", " + std::to_string(left) + " are left";
    return error;
  }

  static uint64_t next_number() {
    static std::atomic<uint64_t> n{0};
    return ++n;
  }

  Driver driver_;
  const DriverCalls& calls_;
  const uint64_t number_ = next_number();  // of this runtime in the process
  int device_ = 0, version_ = 0;
  DeviceSize size_;
  Handle context_ = nullptr, module_ = nullptr, stream_ = nullptr;
  Handle loading_ = nullptr;  // the stream of load()
  std::map<std::string_view, Handle> functions_;
  const LaunchAttribute early_{.id = kMayBeginEarly, .value = {1}};
  bool begins_early_ = false;  // device/entries.cu
  std::array<Handle, kMarks> marks_{};
  std::array<Beside, kCopyStreams> beside_;
  Handle behind_ = nullptr;  // an event behind all that was asked of stream_, for a stream beside
  Status asked_;             // the first failure of what nobody waits for
  std::mutex lock_;
  std::set<std::byte*> pinned_;  // under lock_
  std::string description_;
};

}  // namespace

Result<std::shared_ptr<Runtime>> open_driver_runtime(const DriverOptions& options) {
  Result<Driver> driver = Driver::open(options.library);
  if (!driver) return fail(driver.error().code, "the cuda backend: " + driver.error().message);
  auto runtime = std::make_shared<DriverRuntime>(*driver);
  if (const Status opened = runtime->open(options.image); !opened) {
    return fail(opened.error().code, "the cuda backend: " + opened.error().message);
  }
  return runtime;
}

}  // namespace quire::cuda
