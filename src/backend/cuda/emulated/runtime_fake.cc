#include "backend/cuda/emulated/runtime_fake.h"

#include <sys/mman.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/emulated/kernel_bodies.h"
#include "base/check.h"

namespace quire::cuda {
namespace {

constexpr int64_t kPage = 4096;

class FakeRuntime final : public Runtime {
 public:
  explicit FakeRuntime(const FakeOptions& options) : options_(options), machine_(options.seed, options.mutation) {}
  ~FakeRuntime() override {
    for (const auto& [data, region] : regions_) munmap(data, static_cast<size_t>(region.bytes));
  }

  std::string describe() const override { return "emulated on the CPU, for tests"; }
  DeviceSize size() const override {
    return {.n_multiprocessors = 1, .shared_bytes = options_.shared_bytes, .major = options_.major};
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
    QR_CHECK(queue_.empty() || region->second.is_loaded, "memory is released while work is under way");
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

  void upload(std::byte* to, const void* from, int64_t bytes) override {
    enqueue({.to = to, .from = from, .bytes = bytes, .launch = {}});
  }

  void download(std::byte* to, const void* from, int64_t bytes) override {
    enqueue({.to = to, .from = from, .bytes = bytes, .launch = {}});
  }

  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    enqueue({.to = to, .from = from, .bytes = bytes, .launch = {}});
  }

  int64_t free_bytes() override {
    const std::lock_guard held(mu_);
    return options_.bytes - used_;
  }

  void launch(const Launch& launch) override {
    const Blocks& b = launch.blocks;
    QR_CHECK(b.x > 0 && b.x < (int64_t{1} << 31) && b.y > 0 && b.y < 65536 && b.z > 0 && b.z < 65536);
    QR_CHECK(launch.shared_bytes <= options_.shared_bytes);
    enqueue({.to = nullptr, .from = nullptr, .bytes = 0, .launch = launch});
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
    QR_CHECK(queue_.empty(), "a graph is forgotten while work is under way");
    QR_CHECK(graphs_.erase(graph) == 1);
  }

  void wait() override {
    const std::lock_guard held(mu_);
    run_first(queue_.size());
  }

  void set_mark(int mark) override { marks_.at(static_cast<size_t>(mark)) = n_done_ + queue_.size(); }

  void wait_for(int mark) override {
    const std::lock_guard held(mu_);
    const size_t end = marks_.at(static_cast<size_t>(mark));
    if (end > n_done_) run_first(end - n_done_);
  }

  bool is_well() const override { return true; }
  Status take_error() override { return {}; }

 private:
  struct Work {
    std::byte* to;
    const void* from;
    int64_t bytes;
    Launch launch;
  };
  struct Region {
    int64_t bytes;
    Place place;
    bool is_loaded = false;
  };

  static void protect(std::byte* data, int64_t bytes, int protection) {
    QR_CHECK(mprotect(data, static_cast<size_t>(bytes), protection) == 0);
  }

  void enqueue(const Work& work) {
    const std::lock_guard held(mu_);
    queue_.push_back(work);
    shut(work);
    if (std::exchange(is_shut_, true)) return;
    for (const auto& [data, region] : regions_) {
      if (region.place == Place::shared) protect(data, region.bytes, PROT_NONE);
    }
  }

  // Pinned memory that work copies from is to be read alone, and what it copies to is not to be touched.
  void shut(const Work& work) {
    if (work.to == nullptr) return;
    if (const auto at = pinned(static_cast<const std::byte*>(work.from)); at != regions_.end())
      protect(at->first, at->second.bytes, PROT_READ);
    if (const auto at = pinned(work.to); at != regions_.end()) protect(at->first, at->second.bytes, PROT_NONE);
  }

  std::map<std::byte*, Region>::iterator pinned(const std::byte* data) {
    auto at = regions_.upper_bound(const_cast<std::byte*>(data));
    if (at == regions_.begin()) return regions_.end();
    --at;
    const bool is_in = at->second.place == Place::pinned && data < at->first + at->second.bytes;
    return is_in ? at : regions_.end();
  }

  void run_first(size_t n) {
    if (n == 0) return;
    for (const auto& [data, region] : regions_) protect(data, region.bytes, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < n; ++i) run(queue_[i]);
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(n));
    n_done_ += n;
    is_shut_ = !queue_.empty();
    for (const auto& [data, region] : regions_) {
      const bool is_out = region.place == Place::device || (region.place == Place::shared && is_shut_);
      if (is_out) protect(data, region.bytes, PROT_NONE);
    }
    for (const Work& work : queue_) shut(work);
  }

  void run(const Work& work) {
    if (work.to != nullptr) {
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
  std::map<std::byte*, Region> regions_;
  std::map<Graph, std::unique_ptr<std::vector<Launch>>> graphs_;
  std::vector<Work> queue_;
  size_t n_done_ = 0;                   // that were in it before
  std::array<size_t, kMarks> marks_{};  // how much was asked for before each
  int64_t used_ = 0;
  bool is_shut_ = false;  // memory that the host reaches, to it
};

}  // namespace

std::shared_ptr<Runtime> make_fake_runtime(const FakeOptions& options) {
  return std::make_shared<FakeRuntime>(options);
}

}  // namespace quire::cuda
