#include "engine/loop_engine.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "engine/audit.h"
#include "kv/tiers/tier.h"

namespace quire {
namespace {

constexpr int64_t kViewNs = 100'000'000;            // so often sequences are shown as they are, at most
constexpr std::chrono::milliseconds kLoadTick{10};  // so often a load is asked whether it is late

// Blocks of the first group that pins may hold.
int n_pinnable(const PinLimits& pins, int64_t block_bytes) {
  return static_cast<int>(std::min<int64_t>(pins.n_blocks[0], pins.bytes / std::max<int64_t>(block_bytes, 1)));
}

}  // namespace

LoopEngine::LoopEngine(const EngineUses& uses, const EngineOptions& options, EngineEnv env, EngineMemory memory)
    : options_(options),
      limits_{options.n_ctx,
              uses.model.info().n_vocab,
              memory.counts.n_blocks,
              options.block_tokens,
              why_no_budget(uses.model.info(), uses.ops, env.recorder != nullptr),
              n_pinnable(memory.pins, uses.model.info().kv_layout.block_bytes(0, options.block_tokens))},
      env_(std::move(env)),
      watcher_(memory.watcher),
      tiers_(env_.tiers),
      cache_(uses.model.info().kv_layout, std::move(memory.blocks), cache_options(memory)),
      pins_(cache_, memory.pins),
      scheduler_(options_, cache_, uses.policy, {uses.model.info().fingerprint, 0, 0}),
      explains_({scheduler_.pasts(), tiers_}),
      pass_(uses.model, uses.ops, options_, std::move(memory.scratch)),
      laps_(env_.stage_clock, counts_.stage_ns) {
  scheduler_.pin_into(pins_, pin_book_);
  ended_.reserve(static_cast<size_t>(scheduler_.max_running()));
  if (env_.proposer != nullptr) {
    pass_.tap_into(env_.proposer->taps(), env_.proposer->all_rows());
    if (env_.proposer->writes_ahead()) env_.proposer->write_into(cache_.view());
    const DraftLimits limits{std::min(options_.max_draft, options_.max_chunk - 1), options_.n_ctx, limits_.n_vocab,
                             options_.adapt_draft, options_.max_side};
    scheduler_.draft_with(env_.proposer, limits, env_.recorder);
  }
  if (!tiers_.empty() && options_.prefix_cache) {
    tiers_.on_arrival([this] { inbox_.wake(); });
    scheduler_.load_from(tiers_, watcher_);
  }
  overlaps_ = options_.overlap.value_or(false);
  if (overlaps_ && !pass_.prepare_ahead()) {
    log_warn("steps do not overlap: there is no memory for it");
    overlaps_ = false;
  }
  for (const VirtualTokens& tokens : env_.prefixes) {
    scheduler_.learn(tokens, [&](const Plan& plan) { pass_.write(plan, cache_.view(), tokens); });
  }
  publish(0);
}

LoopEngine::~LoopEngine() { stop(); }

KvCacheOptions LoopEngine::cache_options(const EngineMemory& memory) {
  const BlockCounts& counts = memory.counts;
  const int n_learned = memory.n_learned;
  KvCacheOptions out;
  out.retention = memory.retention;
  out.block_tokens = options_.block_tokens;
  out.n_blocks = counts.n_blocks + n_learned;
  out.prefix_cache = options_.prefix_cache;
  out.policy = options_.kv_policy;
  out.n_window_blocks = counts.n_window_blocks > 0 ? counts.n_window_blocks + n_learned : 0;
  out.n_states = counts.n_states;
  out.n_tail_blocks = counts.n_tail_blocks > 0 ? counts.n_tail_blocks + n_learned : 0;
  out.n_departures = static_cast<int>(std::min(kDeparturesPerBlock * int64_t{out.n_blocks}, kMostDepartures));
  hook_blocks(out, watcher_, tiers_, cache_, counts.n_blocks);
  return out;
}

// The engine thread is woken, so that the blocks are there before somebody asks for room.
bool LoopEngine::unpin(uint64_t id, uint64_t owner) {
  if (!pin_book_.remove(id, owner)) return false;
  inbox_.wake();
  return true;
}

void LoopEngine::drop_unpinned() {
  const std::vector<uint64_t> removed = pin_book_.take_removed();
  for (const uint64_t id : removed) pins_.remove(id);
  if (!removed.empty()) publish(0);
}

void LoopEngine::start() {
  QR_CHECK(!thread_.joinable() && !inbox_.closed());
  thread_ = std::thread([this] {
    owner_ = std::this_thread::get_id();
    set_thread_name("qr-engine");
    while (!inbox_.closed()) {
      if (step()) continue;
      scheduler_.loading() ? inbox_.wait_for(kLoadTick) : inbox_.wait();
    }
    owner_ = std::thread::id();
  });
}

void LoopEngine::stop() {
  const bool first = !inbox_.closed();
  inbox_.close();
  if (thread_.joinable()) thread_.join();
  if (first) cancel_all();
  tiers_.settle(true);
  tiers_.stop();
}

// REQUIRES a closed inbox and that nobody runs the loop.
void LoopEngine::cancel_all() {
  const int64_t now = env_.clock->now_ns();
  record(EngineInput::Kind::clock, 0, now);
  drain(now);
  const bool any = !scheduler_.idle() || explains_.n_waiting() > 0;
  while (std::unique_ptr<Sequence> seq = explains_.remove_first()) finish({std::move(seq), Finish::cancelled, ""}, now);
  while (!scheduler_.idle()) {
    const auto first = scheduler_.n_running() > 0 ? scheduler_.running() : scheduler_.waiting();
    const SeqId id = first.front()->id;
    record(EngineInput::Kind::cancel, id, now);
    finish({scheduler_.remove(id), Finish::cancelled, ""}, now);
  }
  drop_ahead();
  publish(0);
  if (any && env_.on_step_end) env_.on_step_end();
}

// Whether there was something.
bool LoopEngine::drain(int64_t now_ns) {
  arrivals_.clear();
  inbox_.drain(arrivals_);
  bool any = !arrivals_.empty();
  for (std::unique_ptr<Sequence>& seq : arrivals_) {
    record(EngineInput::Kind::submit, seq->id, seq->submitted_ns, &seq->request);
    if (std::vector<Token> prompt = std::exchange(seq->request.prompt, {}); seq->tokens.empty())
      seq->tokens = std::move(prompt);
    ++counts_.n_submitted;
    counts_.n_prompt_tokens += seq->request.explain == nullptr ? seq->n_prompt - seq->n_virtual : 0;
    take_in(std::move(seq), now_ns);
    n_waiting_ = n_waiting();
    --n_inbox_;
  }
  while (const SeqId id = inbox_.next_cancelled()) {
    any = true;
    record(EngineInput::Kind::cancel, id, now_ns);
    std::unique_ptr<Sequence> seq = explains_.remove(id);
    finish({seq != nullptr ? std::move(seq) : scheduler_.remove(id), Finish::cancelled, ""}, now_ns);
  }
  return any;
}

void LoopEngine::take_in(std::unique_ptr<Sequence> seq, int64_t now_ns) {
  try {
    seq->request.explain != nullptr ? explains_.add(std::move(seq)) : scheduler_.add(std::move(seq));
  } catch (const std::bad_alloc&) {
    starve(std::move(seq), now_ns);
  }
}

// Answers one that is to be explained: what it takes is bounded, and a step has one. False: none waits.
bool LoopEngine::explain_next(int64_t now_ns) {
  std::unique_ptr<Sequence> seq = explains_.remove_first();
  if (seq == nullptr) return false;
  try {
    const Explanation found = explains_.explain(*seq, now_ns);
    seq->tell_sink([&](EventSink& sink) { sink.on_explained(seq->id, found); });
  } catch (const std::bad_alloc&) {
    starve(std::move(seq), now_ns);
    return true;
  }
  finish({std::move(seq), Finish::stop, ""}, now_ns);
  return true;
}

// Asks for the step, unless that was done, and for the next one; then it waits for this one.
Status LoopEngine::run_ahead(const Plan& plan) {
  if (!is_asked_) pass_.ask(plan, cache_.view(), laps_);
  scheduler_.advance();
  const Plan* next = pass_.has_room_ahead(plan) && scheduler_.may_run_ahead() ? scheduler_.plan_ahead() : nullptr;
  laps_.lap(Stage::plan);
  if (next != nullptr) {
    pass_.ask(*next, cache_.view(), laps_);
    asks_ahead_ = true;
    ++counts_.n_steps_ahead;
  }
  return pass_.take(plan, laps_);
}

// Where nobody is left in the step that was asked for ahead, it is waited for, and was for nothing.
void LoopEngine::drop_ahead() {
  if (!asks_ahead_ || scheduler_.is_ahead()) return;
  pass_.abandon();
  asks_ahead_ = false;
}

// False when the pass failed: nothing of it is committed, whom it was for ends with an error, and all others go on.
// Everybody in the step that was asked for ahead is in this one.
bool LoopEngine::run(const Plan& plan) {
  std::string error;
  try {
    const bool ahead = is_asked_ || (overlaps_ && pass_.has_room_ahead(plan) && scheduler_.may_run_ahead());
    const Status done = ahead ? run_ahead(plan) : pass_.run(plan, cache_.view(), laps_);
    if (done && !ahead) scheduler_.advance();
    if (done) return true;
    error = failure({done.error().message});
  } catch (const std::bad_alloc&) {
    error = kNoMemory;
  } catch (const std::exception& thrown) {
    error = failure({thrown.what()});
  }
  pass_.abandon();
  asks_ahead_ = false;
  log_error(failure({"a step failed: ", error}));
  scheduler_.fail_step(error == kNoMemory ? error : failure({"the step failed: ", error}), ended_);
  return false;
}

void LoopEngine::tell_plan(const Plan& plan) {
  if (env_.recorder == nullptr) return;
  const int64_t n_preempted = counts_.n_preempted - std::exchange(n_preempted_told_, counts_.n_preempted);
  if (n_preempted > 0) decided(EngineDecision::Kind::preempt, 0, n_preempted);
  for (const Grant& grant : plan.grants) decided(EngineDecision::Kind::grant, grant.seq->id, grant.n_tokens);
}

// To those of the plan who asked, what their sinks do not know yet.
void LoopEngine::tell_progress(const Plan& plan) {
  for (const Grant& grant : plan.grants) {
    Sequence& seq = *grant.seq;
    if (!seq.request.tells_progress) continue;
    const int n_done = std::min(seq.n_computed, seq.n_prompt) - seq.n_virtual;
    if (n_done <= seq.of_prompt.n_told) continue;
    seq.of_prompt.n_told = n_done;
    TokenEvent event;
    event.n_done = n_done;
    seq.tell_sink([&](EventSink& sink) { sink.on_token(seq.id, event); });
  }
}

void LoopEngine::emit(Sequence& seq, Sampled& sampled, bool accepted) {
  event_.id = sampled.token;
  event_.logprob = sampled.logprob;
  event_.accepted = accepted;
  std::swap(event_.top, sampled.top);
  counts_.n_generated_tokens += seq.request.pool == Pool::none ? 1 : 0;  // vectors are no tokens
  decided(EngineDecision::Kind::token, seq.id, event_.id);
  seq.tell_sink([&](EventSink& sink) { sink.on_token(seq.id, event_); });
}

void LoopEngine::finish(Ended ended, int64_t now_ns) {
  Sequence& seq = *ended.seq;
  counts_.n_finished += ended.finish == Finish::stop || ended.finish == Finish::length ? 1 : 0;
  counts_.n_cancelled += ended.finish == Finish::cancelled ? 1 : 0;
  counts_.n_failed += ended.finish == Finish::error ? 1 : 0;
  Usage usage;
  usage.n_prompt = seq.request.explain == nullptr ? seq.n_prompt - seq.n_virtual : 0;
  usage.n_generated = seq.n_sampled();
  counts_.n_generated_tokens += seq.drew_stop_id ? 1 : 0;
  // Of an answer that went on from another engine's, the tree may have had some of that too.
  usage.n_cached = std::min(seq.account.n_cached, seq.n_prompt - seq.n_virtual);
  usage.n_disk = std::min(seq.account.n_disk, usage.n_cached);
  usage.n_remote = std::min(seq.account.n_remote, usage.n_cached - usage.n_disk);
  usage.n_dropped = seq.account.n_dropped;
  usage.n_pinned = seq.account.n_pinned;
  usage.queued_ns = (seq.admitted ? seq.started_ns : now_ns) - seq.submitted_ns;
  usage.first_token_ns = seq.first_token_ns < 0 ? 0 : seq.first_token_ns - seq.submitted_ns;
  usage.total_ns = now_ns - seq.submitted_ns;
  usage.cost = seq.account.cost;
  ended_cost_ += seq.account.cost;
  decided(EngineDecision::Kind::finish, seq.id, static_cast<int64_t>(ended.finish));
  leave_queue(seq);
  inbox_.leave(seq.id);
  seq.tell_sink([&](EventSink& sink) { sink.on_finish(seq.id, ended.finish, usage, ended.error); });
}

// False: nobody was.
bool LoopEngine::refuse_late(int64_t now_ns) {
  bool any = false;
  for (auto seq = scheduler_.take_late(now_ns); seq != nullptr; seq = scheduler_.take_late(now_ns)) {
    finish({std::move(seq), Finish::error, std::string(kTooLate)}, now_ns);
    any = true;
  }
  return any;
}

bool LoopEngine::step() {
  QR_DCHECK(on_engine_thread());
  const int64_t start = env_.clock->now_ns();
  record(EngineInput::Kind::clock, 0, start);
  laps_.begin_step();
  drop_unpinned();
  cache_.tell_time(start);
  const bool drained = drain(start);
  drop_ahead();
  is_asked_ = std::exchange(asks_ahead_, false);
  const bool refused = refuse_late(start), explained = explain_next(start), loaded = scheduler_.loading();
  const Plan& plan = is_asked_ ? scheduler_.take_ahead(start) : scheduler_.plan(start);
  const bool worked = !plan.grants.empty();
  std::unique_ptr<Sequence> starved = scheduler_.take_starved();
  const bool moved = worked || starved != nullptr || drained || explained || refused;
  QR_CHECK(worked || starved != nullptr || scheduler_.idle() || scheduler_.loading(),
           "nothing can run though " + std::to_string(scheduler_.n_waiting()) + " sequences wait");
  if (starved != nullptr) starve(std::move(starved), start);
  n_waiting_ = n_waiting();  // who was admitted waits no more while the step computes
  for (const Grant& grant : plan.grants) leave_queue(*grant.seq);
  show_requests(start);
  if (worked) {
    work(plan, start);
  } else if (moved || loaded || scheduler_.loading()) {
    publish(0);  // what a tier brought takes room though nobody moves
  }
  tiers_.settle(!worked);
  if (watcher_ != nullptr) watcher_->step_ended();
  if (moved && env_.on_step_end) env_.on_step_end();
  return moved;
}

// A step that has something to compute.
void LoopEngine::work(const Plan& plan, int64_t start_ns) {
  laps_.lap(Stage::plan);
  tell_plan(plan);
  ended_.clear();
  tell_progress(plan);
  const bool done = run(plan);
  const int64_t now = env_.clock->now_ns();
  record(EngineInput::Kind::clock, 0, now);
  ++counts_.n_steps;
  if (done) {
    scheduler_.charge_stages(laps_.step());
    pass_.emit_prompts();
    tell_progress(plan);
    const auto told = [this](Sequence& seq, Sampled& s, bool accepted) { emit(seq, s, accepted); };
    scheduler_.commit(pass_.sampled(), now, told, ended_);
  }
  for (Ended& ended : ended_) finish(std::move(ended), now);
  drop_ahead();
  laps_.lap(Stage::commit);
  if (scheduler_.idle()) show_requests(now);
  publish(now - start_ns);
}

void LoopEngine::publish(int64_t step_ns) {
  EngineStats out;
  static_cast<Counters&>(out) = scheduler_.counters();
  out.queue_ns = scheduler_.queue_ns();
  out.n_waiting = n_waiting();
  n_waiting_ = out.n_waiting;
  out.n_running = scheduler_.n_running();
  out.draft_depth = scheduler_.draft_depth();
  out.n_blocks = cache_.n_blocks();
  out.n_learned_blocks = cache_.n_blocks() - limits_.n_blocks;
  out.n_free_blocks = cache_.n_free_blocks();
  out.n_cached_blocks = cache_.n_cached_blocks();
  for (int g = 1; g < cache_.n_groups(); ++g) {
    if (cache_.group(g).kind == KvGroup::Kind::state) {
      out.n_states = cache_.pool(g).n_blocks();
      out.n_free_states = cache_.pool(g).n_free();
      out.n_cached_states = cache_.pool(g).n_cached();
      continue;
    }
    out.n_window_blocks += cache_.pool(g).n_blocks();
    out.n_free_window_blocks += cache_.pool(g).n_free();
    out.n_cached_window_blocks += cache_.pool(g).n_cached();
  }
  out.n_pins = static_cast<int>(pins_.pins().size());
  out.n_pinned_blocks = pins_.n_blocks(0);
  out.pinned_bytes = pins_.bytes();
  out.pin_bytes = pins_.limits().bytes;
  out.swapped_bytes = scheduler_.swaps().bytes();
  out.swap_bytes = scheduler_.swaps().most_bytes();
  out.n_retained_blocks = cache_.n_retained_blocks();
  out.most_retained_blocks = cache_.n_most_retained_blocks();
  out.recompute_credit = scheduler_.growth().credit();
  out.most_recompute_credit = scheduler_.growth().most_credit();
  out.step_ns = step_ns;
  const std::lock_guard lock(stats_mutex_);
  stats_ = out;
}

// Before the pass, so that a long step is explained while it runs; what has just ended is not shown for longer than
// others run. Without memory the last look stays.
void LoopEngine::show_requests(int64_t now_ns) {
  const bool any = !scheduler_.idle();
  if (any == shows_any_ && (!any || now_ns - shown_ns_ < kViewNs)) return;
  const std::lock_guard lock(views_mutex_);
  try {
    view_requests(scheduler_, now_ns, views_);
    shown_ns_ = now_ns;
    shows_any_ = any;
  } catch (const std::bad_alloc&) {
    return;
  }
}

RequestViews LoopEngine::requests() const {
  const std::lock_guard lock(views_mutex_);
  return views_;
}

EngineStats LoopEngine::stats() const {
  EngineStats out;
  {
    const std::lock_guard lock(stats_mutex_);
    out = stats_;
  }
  out.tiers = tiers_.stats();
  return out;
}

Snapshot LoopEngine::snapshot() const {
  QR_DCHECK(on_engine_thread());
  Snapshot out = audit(scheduler_, cache_);
  out.stats = stats();
  out.cost += ended_cost_;
  return out;
}

}  // namespace quire
