#include "backend/cuda/replays.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash128.h"
#include "base/log.h"

namespace quire::cuda {
namespace {

constexpr size_t kLeastLaunches = 4;                 // of a run that is worth a graph
constexpr size_t kMostGraphs = 64, kMostRuns = 256;  // runs: of which the hash alone is known
constexpr int kMostFailures = 3;                     // one after the other, then launches stay single

struct Copy {
  enum class Kind : uint8_t { up, down, within } kind = Kind::up;
  std::byte* to = nullptr;
  const void* from = nullptr;
  int64_t bytes = 0;
};

// Launches, and the copy behind them.
struct Run {
  size_t n_launches = 0;
  Copy copy;
};

struct Known {
  Hash128 hash;
  std::vector<Launch> launches;  // empty: it was seen once
  Graph graph = nullptr;
  int64_t last_used = 0;
};

bool are_same(const Launch& a, const Launch& b) {
  return a.name == b.name && a.body == b.body && a.arguments == b.arguments && a.blocks == b.blocks &&
         a.n_threads == b.n_threads && a.shared_bytes == b.shared_bytes;
}

Hash128 hash_of(std::span<const Launch> launches) {
  Hash128 out;
  for (const Launch& launch : launches) {
    const auto size = static_cast<uint64_t>(launch.blocks.x ^ (launch.blocks.y << 20) ^ (launch.blocks.z << 40));
    const Hash128 of_one = hash128(launch.arguments, out.lo ^ size);
    out = {of_one.lo ^ std::bit_cast<uintptr_t>(launch.name), of_one.hi ^ out.hi};
  }
  return out;
}

class Replays final : public Runtime {
 public:
  explicit Replays(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  ~Replays() override {
    if (known_.empty()) return;
    runtime_->wait();
    for (const Known& run : known_) forget_graph(run);
  }

  std::string describe() const override { return runtime_->describe(); }
  DeviceSize size() const override { return runtime_->size(); }
  Result<std::byte*> allocate(int64_t bytes, Place place) override { return runtime_->allocate(bytes, place); }
  void release(std::byte* data) override { runtime_->release(data); }
  Result<std::byte*> load(std::span<const std::byte> bytes) override { return runtime_->load(bytes); }
  int64_t free_bytes() override { return runtime_->free_bytes(); }
  void upload(std::byte* to, const void* from, int64_t bytes) override { end_run({Copy::Kind::up, to, from, bytes}); }
  void download(std::byte* to, const void* from, int64_t bytes) override {
    end_run({Copy::Kind::down, to, from, bytes});
  }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    end_run({Copy::Kind::within, to, from, bytes});
  }
  void launch(const Launch& launch) override { launches_.push_back(launch); }
  Result<Graph> record(std::span<const Launch> launches) override { return runtime_->record(launches); }
  void forget(Graph graph) override { runtime_->forget(graph); }
  void replay(Graph graph) override {
    flush();
    runtime_->replay(graph);
  }

  void wait() override {
    flush();
    runtime_->wait();
    trim();
  }

  void set_mark(int mark) override {
    flush();
    runtime_->set_mark(mark);
  }

  void wait_for(int mark) override {
    flush();
    runtime_->wait_for(mark);
    if (is_over_full()) wait();
  }

  Status copy_beside(CopyStream stream, std::byte* to, const std::byte* from, int64_t bytes, int mark) override {
    return runtime_->copy_beside(stream, to, from, bytes, mark);
  }
  Status put_behind(CopyStream stream) override {
    flush();
    return runtime_->put_behind(stream);
  }
  Status wait_on_device(CopyStream stream, int mark) override {
    flush();
    return runtime_->wait_on_device(stream, mark);
  }
  Result<bool> has_happened(CopyStream stream, int mark) override { return runtime_->has_happened(stream, mark); }
  Status wait_beside(CopyStream stream, int mark) override { return runtime_->wait_beside(stream, mark); }
  Status wait_beside(CopyStream stream) override { return runtime_->wait_beside(stream); }

  bool is_well() const override { return runtime_->is_well(); }

  // A graph may be what failed, so all are made anew.
  Status take_error() override {
    Status out = runtime_->take_error();
    const bool has_replayed = std::exchange(has_replayed_, false);
    if (out) {
      if (has_replayed) n_failures_ = 0;
      return out;
    }
    for (const Known& run : known_) forget_graph(run);
    known_.clear();
    if (has_replayed) failed(out.error().message);
    return out;
  }

 private:
  void end_run(const Copy& copy) {
    runs_.push_back({launches_.size() - n_in_runs_, copy});
    n_in_runs_ = launches_.size();
  }

  void flush() {
    size_t at = 0;
    for (const Run& run : runs_) {
      launch_all(std::span(launches_).subspan(at, run.n_launches));
      at += run.n_launches;
      ask_for(run.copy);
    }
    launch_all(std::span(launches_).subspan(at));
    runs_.clear();
    launches_.clear();
    n_in_runs_ = 0;
  }

  void ask_for(const Copy& copy) {
    const auto& [kind, to, from, bytes] = copy;
    switch (kind) {
      case Copy::Kind::up: return runtime_->upload(to, from, bytes);
      case Copy::Kind::down: return runtime_->download(to, from, bytes);
      case Copy::Kind::within: return runtime_->copy(to, static_cast<const std::byte*>(from), bytes);
    }
  }

  void launch_all(std::span<const Launch> launches) {
    if (launches.size() >= kLeastLaunches && !is_refused_ && launch_as_one(launches)) return;
    for (const Launch& launch : launches) runtime_->launch(launch);
  }

  // False, with nothing launched, of a run that is new, or where something is in the way.
  bool launch_as_one(std::span<const Launch> launches) {
    const Hash128 hash = hash_of(launches);
    const auto found = std::ranges::find(known_, hash, &Known::hash);
    try {
      if (found == known_.end()) {
        known_.push_back({.hash = hash, .launches = {}, .last_used = ++n_uses_});
        return false;
      }
      found->last_used = ++n_uses_;
      if (found->launches.empty() && !record_run(*found, launches)) return false;
    } catch (const std::bad_alloc&) {
      return false;
    }
    if (!std::ranges::equal(found->launches, launches, are_same)) return false;
    has_replayed_ = true;
    runtime_->replay(found->graph);
    return true;
  }

  bool record_run(Known& run, std::span<const Launch> launches) {
    std::vector<Launch> kept(launches.begin(), launches.end());
    const Result<Graph> graph = runtime_->record(launches);
    if (!graph) {
      if (graph.error().code == Code::exhausted) return false;  // there may be memory again
      failed(graph.error().message);
      return false;
    }
    run.graph = *graph;
    run.launches = std::move(kept);
    return true;
  }

  void failed(const std::string& why) {
    if (++n_failures_ < kMostFailures || std::exchange(is_refused_, true)) return;
    log_warn("steps are launched kernel by kernel: " + why);
  }

  void forget_graph(const Known& run) {
    if (run.graph != nullptr) runtime_->forget(run.graph);
  }

  static bool has_graph(const Known& run) { return run.graph != nullptr; }
  bool is_over_full() const {
    return known_.size() > kMostRuns ||
           std::ranges::count_if(known_, has_graph) > static_cast<std::ptrdiff_t>(kMostGraphs);
  }

  // The longest unused go; nothing is under way.
  void trim() {
    while (is_over_full()) {
      const bool is_of_graphs = known_.size() <= kMostRuns;
      auto oldest = known_.end();
      for (auto run = known_.begin(); run != known_.end(); ++run) {
        if (is_of_graphs && !has_graph(*run)) continue;
        if (oldest == known_.end() || run->last_used < oldest->last_used) oldest = run;
      }
      forget_graph(*oldest);
      known_.erase(oldest);
    }
  }

  std::shared_ptr<Runtime> runtime_;
  std::vector<Launch> launches_;  // since the last wait
  std::vector<Run> runs_;
  size_t n_in_runs_ = 0;  // of launches_
  std::vector<Known> known_;
  int64_t n_uses_ = 0;
  int n_failures_ = 0;         // of recordings and of steps with a replay, without a step with one between them
  bool has_replayed_ = false;  // since errors were asked for
  bool is_refused_ = false;
};

}  // namespace

std::shared_ptr<Runtime> with_replays(std::shared_ptr<Runtime> runtime) {
  return std::make_shared<Replays>(std::move(runtime));
}

}  // namespace quire::cuda
