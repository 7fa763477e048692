// The engine's loop and its doors: other threads' requests come in through the inbox, steps are planned, run and
// committed, events go out. What each of these does stands in scheduler.h and step_pass.h; here is their order.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/block_hooks.h"
#include "engine/engine.h"
#include "engine/explains.h"
#include "engine/inbox.h"
#include "engine/laps.h"
#include "engine/limits.h"
#include "engine/queue_shares.h"
#include "engine/scheduler.h"
#include "engine/step_pass.h"

namespace quire {

struct EngineUses {
  const Model& model;
  Ops& ops;
  const Policy& policy;
};
struct EngineMemory {
  std::vector<Buffer> blocks;  // one per KV group
  BlockCounts counts;          // without those of learned prefixes
  int n_learned = 0;           // which every group has on top
  PinLimits pins;
  RetentionLimits retention;
  Buffer scratch;                   // the step's arena
  BlockWatcher* watcher = nullptr;  // may be null
};

class LoopEngine final : public Engine {
 public:
  // `options` as resolved; `memory` as they say.
  LoopEngine(const EngineUses& uses, const EngineOptions& options, EngineEnv env, EngineMemory memory);
  ~LoopEngine() override;

  Result<SeqId> submit(Request request, std::shared_ptr<EventSink> sink) override;
  Result<std::shared_ptr<QueuePlaces>> reserve(uint64_t tenant, int n) override;
  void cancel(SeqId id) override { inbox_.cancel(id); }
  void start() override;
  void stop() override;
  bool step() override;
  std::vector<PinView> pins(uint64_t owner) const override { return pin_book_.of(owner); }
  bool unpin(uint64_t id, uint64_t owner) override;
  EngineStats stats() const override;
  RequestViews requests() const override;
  Snapshot snapshot() const override;
  const EngineOptions& options() const override { return options_; }
  const Status& learned() const { return pass_.written(); }  // whether what prefixes learned could be written

 private:
  KvCacheOptions cache_options(const EngineMemory& memory);
  Result<int> n_virtual(const Request& request) const;
  Status check_pin(const Request& request, int n_virtual) const;
  Status check_explain(const Request& request) const;
  bool explain_next(int64_t now_ns);
  int n_waiting() const { return scheduler_.n_waiting() + explains_.n_waiting(); }
  void drop_unpinned();
  bool drain(int64_t now_ns);
  void take_in(std::unique_ptr<Sequence> seq, int64_t now_ns);
  void work(const Plan& plan, int64_t start_ns);
  bool run(const Plan& plan);
  Status run_ahead(const Plan& plan);
  void drop_ahead();
  void starve(std::unique_ptr<Sequence> seq, int64_t now_ns) {
    finish({std::move(seq), Finish::error, std::string(kNoMemory)}, now_ns);
  }
  bool refuse_late(int64_t now_ns);
  void emit(Sequence& seq, Sampled& sampled, bool accepted);
  void finish(Ended ended, int64_t now_ns);
  void record(EngineInput::Kind kind, SeqId seq, int64_t time_ns, const Request* request = nullptr) {
    if (env_.recorder != nullptr) env_.recorder->record({kind, seq, time_ns, request});
  }
  void decided(EngineDecision::Kind kind, SeqId seq, int64_t value) {
    if (env_.recorder != nullptr) env_.recorder->decided({kind, seq, value});
  }
  void leave_queue(Sequence& seq) {
    if (std::exchange(seq.in_queue, false)) shares_.leave(seq.request.tenant);
  }
  void tell_progress(const Plan& plan);
  void tell_plan(const Plan& plan);
  void publish(int64_t step_ns);
  void show_requests(int64_t now_ns);
  void cancel_all();
  // Nobody runs the loop, or this is the thread that does.
  bool on_engine_thread() const {
    const std::thread::id owner = owner_.load();
    return owner == std::thread::id() || owner == std::this_thread::get_id();
  }

  const EngineOptions options_;
  const RequestLimits limits_;
  EngineEnv env_;
  BlockWatcher* const watcher_;
  TierChain tiers_;
  KvCache cache_;
  Pins pins_;
  PinBook pin_book_;
  Scheduler scheduler_;
  Explains explains_;
  Counters& counts_ = scheduler_.counters();
  StepPass pass_;
  bool overlaps_ = false;    // the next step may be asked for while one runs
  bool is_asked_ = false;    // the planned one was, in the step before
  bool asks_ahead_ = false;  // the one behind it is
  Laps laps_;
  Inbox inbox_;
  QueueShares shares_;
  std::thread thread_;
  std::atomic<std::thread::id> owner_{};        // of the loop, while it runs in its own thread
  std::atomic<int> n_inbox_{0}, n_waiting_{0};  // together: submitted and not yet running

  // Engine thread, reused from step to step.
  std::vector<std::unique_ptr<Sequence>> arrivals_;
  std::vector<Ended> ended_;
  TokenEvent event_;
  Cost ended_cost_;               // of all that ended
  int64_t n_preempted_told_ = 0;  // to the recorder

  mutable std::mutex stats_mutex_;
  EngineStats stats_;
  mutable std::mutex views_mutex_;
  RequestViews views_;    // guarded by views_mutex_, written by the engine thread
  int64_t shown_ns_ = 0;  // engine thread: when
  bool shows_any_ = false;
};

}  // namespace quire
