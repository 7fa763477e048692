#include "backend/cuda/emulated/runtime_fake.h"

#include <sys/mman.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/emulated/kernel_bodies.h"
#include "backend/cuda/emulated/streams.h"
#include "base/check.h"

namespace quire::cuda {
namespace {

constexpr int64_t kPage = 4096;

// Events of marks, and the one that put_behind() sets.
int event_of(CopyStream stream, int mark) {
  QR_CHECK(mark >= 0 && mark < kCopyMarks);
  return kMarks + static_cast<int>(stream) * kCopyMarks + mark;
}
constexpr int kBehind = EmulatedRuntime::kEvents - 1;

int number_of(CopyStream stream) { return 1 + static_cast<int>(stream); }

class FakeRuntime final : public EmulatedRuntime {
 public:
  explicit FakeRuntime(const FakeOptions& options)
      : options_(options), machine_(options.seed, options.mutation), streams_(options.seed) {}
  ~FakeRuntime() override {
    for (const auto& [data, region] : regions_) munmap(data, static_cast<size_t>(region.bytes));
  }

  std::string describe() const override { return "emulated on the CPU, for tests"; }
  DeviceSize size() const override {
    return {.n_multiprocessors = options_.n_multiprocessors,
            .shared_bytes = options_.shared_bytes,
            .major = options_.major};
  }

  Result<std::byte*> allocate(int64_t bytes, Place place) override {
    const std::lock_guard held(mu_);
    QR_CHECK(bytes > 0);
    const int64_t left = options_.bytes - used_;
    const int64_t mapped = (bytes + kPage - 1) / kPage * kPage;
    void* data = MAP_FAILED;
    if (bytes <= left) {
      const int protection = place == Place::device ? PROT_NONE : PROT_READ | PROT_WRITE;
      data = mmap(nullptr, static_cast<size_t>(mapped), protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (data == MAP_FAILED) {
      return fail(Code::exhausted, "cannot allocate " + std::to_string(bytes) + " bytes on the device, " +
                                       std::to_string(left) + " are left");
    }
    auto* out = static_cast<std::byte*>(data);
    regions_[out] = {mapped, place};
    memory_.add(out, bytes);
    used_ += mapped;
    if (is_shut_ && place == Place::shared) protect(out, mapped, PROT_NONE);
    return out;
  }

  // What was loaded goes while others' work is under way; a kernel that still reads it is told by its line.
  void release(std::byte* data) override {
    const std::lock_guard held(mu_);
    const auto region = regions_.find(data);
    QR_CHECK(region != regions_.end());
    QR_CHECK(streams_.is_idle(0) || region->second.is_loaded, "memory is released while work is under way");
    streams_.for_each([&](const Work& work) {
      const bool is_of_it = find(work.to) == region || find(static_cast<const std::byte*>(work.from)) == region;
      QR_CHECK(work.kind != Work::Kind::copy || !is_of_it, "memory is released while a copy of it is under way");
    });
    used_ -= region->second.bytes;
    munmap(data, static_cast<size_t>(region->second.bytes));
    memory_.remove(data);
    regions_.erase(region);
  }

  Result<std::byte*> load(std::span<const std::byte> bytes) override {
    const std::lock_guard held(mu_);
    QR_TRY(std::byte * out, allocate(std::ssize(bytes), Place::device));
    Region& region = regions_[out];
    region.is_loaded = true;
    protect(out, region.bytes, PROT_READ | PROT_WRITE);
    std::memcpy(out, bytes.data(), bytes.size());
    protect(out, region.bytes, PROT_NONE);
    return out;
  }

  void upload(std::byte* to, const void* from, int64_t bytes) override { copy_on(0, to, from, bytes); }
  void download(std::byte* to, const void* from, int64_t bytes) override { copy_on(0, to, from, bytes); }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override { copy_on(0, to, from, bytes); }

  int64_t free_bytes() override {
    const std::lock_guard held(mu_);
    return options_.bytes - used_;
  }

  void launch(const Launch& launch) override {
    const Blocks& b = launch.blocks;
    QR_CHECK(b.x > 0 && b.x < (int64_t{1} << 31) && b.y > 0 && b.y < 65536 && b.z > 0 && b.z < 65536);
    QR_CHECK(launch.shared_bytes <= options_.shared_bytes);
    enqueue(0, {.kind = Work::Kind::launch, .launch = launch});
  }

  Result<Graph> record(std::span<const Launch> launches) override {
    auto graph = std::make_unique<std::vector<Launch>>(launches.begin(), launches.end());
    Graph out = graph.get();
    graphs_[out] = std::move(graph);
    return out;
  }

  void replay(Graph graph) override {
    const auto found = graphs_.find(graph);
    QR_CHECK(found != graphs_.end(), "a graph that is not there");
    for (const Launch& recorded : *found->second) launch(recorded);
  }

  void forget(Graph graph) override {
    QR_CHECK(streams_.is_idle(0), "a graph is forgotten while work is under way");
    QR_CHECK(graphs_.erase(graph) == 1);
  }

  void wait() override { wait_for_stream(0); }
  void set_mark(int mark) override { set_event(mark, 0); }
  void wait_for(int mark) override { wait_for_event(mark); }

  Status copy_beside(CopyStream stream, std::byte* to, const std::byte* from, int64_t bytes, int mark) override {
    const std::lock_guard held(mu_);
    const bool is_in = stream == CopyStream::in;
    QR_CHECK(is_pinned(find(is_in ? from : to)), "a copy beside is not of pinned memory");
    copy_on(number_of(stream), to, from, bytes);
    set_event(event_of(stream, mark), number_of(stream));
    return {};
  }
  Status put_behind(CopyStream stream) override {
    set_event(kBehind, 0);
    if (!options_.forgets_put_behind) put_behind_event(number_of(stream), kBehind);
    return {};
  }
  Status wait_on_device(CopyStream stream, int mark) override {
    if (!options_.forgets_wait_on_device) put_behind_event(0, event_of(stream, mark));
    return {};
  }
  Result<bool> has_happened(CopyStream stream, int mark) override { return event_has_happened(event_of(stream, mark)); }
  Status wait_beside(CopyStream stream, int mark) override {
    wait_for_event(event_of(stream, mark));
    return {};
  }
  Status wait_beside(CopyStream stream) override {
    wait_for_stream(number_of(stream));
    return {};
  }

  void copy_on(int stream, std::byte* to, const void* from, int64_t bytes) override {
    enqueue(stream, {.kind = Work::Kind::copy, .to = to, .from = from, .bytes = bytes, .launch = {}});
  }
  void set_event(int event, int stream) override {
    const std::lock_guard held(mu_);
    events_.at(static_cast<size_t>(event)) = streams_.end(stream);
  }
  void put_behind_event(int stream, int event) override {
    const std::lock_guard held(mu_);
    const Streams::Point point = events_.at(static_cast<size_t>(event));
    if (!streams_.has_happened(point)) streams_.put_behind(stream, point);
  }
  bool event_has_happened(int event) override {
    const std::lock_guard held(mu_);
    const Streams::Point point = events_.at(static_cast<size_t>(event));
    if (!streams_.has_happened(point) && streams_.one_in(2)) run(point);
    return streams_.has_happened(point);
  }
  void wait_for_event(int event) override {
    const std::lock_guard held(mu_);
    const Streams::Point point = events_.at(static_cast<size_t>(event));
    if (!streams_.has_happened(point)) run(point);
  }
  void wait_for_stream(int stream) override {
    const std::lock_guard held(mu_);
    if (!streams_.is_idle(stream)) run(streams_.end(stream));
  }

  bool is_well() const override { return true; }
  Status take_error() override { return {}; }

 private:
  struct Region {
    int64_t bytes;
    Place place;
    bool is_loaded = false;
  };
  using Regions = std::map<std::byte*, Region>;

  static void protect(std::byte* data, int64_t bytes, int protection) {
    QR_CHECK(mprotect(data, static_cast<size_t>(bytes), protection) == 0);
  }

  void enqueue(int stream, const Work& work) {
    const std::lock_guard held(mu_);
    streams_.add(stream, work);
    shut(work);
    if (stream != 0 || std::exchange(is_shut_, true)) return;
    for (const auto& [data, region] : regions_) {
      if (region.place == Place::shared) protect(data, region.bytes, PROT_NONE);
    }
  }

  // Pinned memory that work copies from is to be read alone, and what it copies to is not to be touched.
  void shut(const Work& work) {
    if (work.kind != Work::Kind::copy) return;
    if (const auto at = find(static_cast<const std::byte*>(work.from)); is_pinned(at))
      protect(at->first, at->second.bytes, PROT_READ);
    if (const auto at = find(work.to); is_pinned(at)) protect(at->first, at->second.bytes, PROT_NONE);
  }

  Regions::iterator find(const std::byte* data) {
    auto at = regions_.upper_bound(const_cast<std::byte*>(data));
    if (at == regions_.begin()) return regions_.end();
    --at;
    return data < at->first + at->second.bytes ? at : regions_.end();
  }
  bool is_pinned(Regions::iterator at) const { return at != regions_.end() && at->second.place == Place::pinned; }

  void run(Streams::Point point) {
    for (const auto& [data, region] : regions_) protect(data, region.bytes, PROT_READ | PROT_WRITE);
    for (const Work& work : streams_.take(point)) run(work);
    is_shut_ = !streams_.is_idle(0);
    for (const auto& [data, region] : regions_) {
      const bool is_out = region.place == Place::device || (region.place == Place::shared && is_shut_);
      if (is_out) protect(data, region.bytes, PROT_NONE);
    }
    streams_.for_each([&](const Work& work) { shut(work); });
  }

  void run(const Work& work) {
    if (work.kind == Work::Kind::copy) {
      std::memcpy(work.to, work.from, static_cast<size_t>(work.bytes));
      return;
    }
    const Launch& l = work.launch;
    const emulated::Grid grid{static_cast<int>(l.blocks.x), static_cast<int>(l.blocks.y), static_cast<int>(l.blocks.z)};
    const KernelBody* known = l.body != nullptr ? nullptr : find_kernel(l.name);
    QR_CHECK(l.body != nullptr || known != nullptr, "there is no kernel of this name");
    auto* body = l.body != nullptr ? l.body : known->body;
    const std::string fault = machine_.run({body, l.arguments.data(), grid, l.n_threads, l.shared_bytes}, memory_);
    if (fault.empty()) return;
    QR_CHECK(options_.fault != nullptr, "a kernel went wrong: " + fault);
    if (options_.fault->empty()) *options_.fault = fault;
  }

  std::recursive_mutex mu_;  // load() and release() are called on any thread
  FakeOptions options_;
  emulated::Machine machine_;
  emulated::DeviceMemory memory_;
  Regions regions_;
  std::map<Graph, std::unique_ptr<std::vector<Launch>>> graphs_;
  Streams streams_;
  std::array<Streams::Point, kEvents> events_{};
  int64_t used_ = 0;
  bool is_shut_ = false;  // memory that the host reaches, to it
};

}  // namespace

std::shared_ptr<EmulatedRuntime> make_emulated_runtime(const FakeOptions& options) {
  return std::make_shared<FakeRuntime>(options);
}

std::shared_ptr<Runtime> make_fake_runtime(const FakeOptions& options) { return make_emulated_runtime(options); }

}  // namespace quire::cuda
