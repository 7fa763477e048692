#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/rng.h"
#include "base/thread.h"
#include "engine/batcher.h"
#include "engine/inbox.h"
#include "engine/limits.h"
#include "engine/pooling.h"
#include "engine/scheduler.h"
#include "sample/rules.h"

namespace quire {
namespace {

constexpr uint64_t kNumericsVersion = 3;  // docs/numerics.md

int n_window_blocks(const Sequence& seq) {
  int n = 0;
  for (const PrefixTree::Blocks& blocks : seq.kv.table) {
    for (size_t g = 1; g < blocks.size(); ++g) n += blocks[g] ? 1 : 0;
  }
  return n;
}

struct EngineUses {
  const Model& model;
  Ops& ops;
  const Policy& policy;
};
struct EngineMemory {
  std::vector<Buffer> blocks;  // one per KV group
  BlockCounts counts;
  Buffer scratch;  // the step's arena
};

class LoopEngine final : public Engine {
 public:
  LoopEngine(const EngineUses& uses, const EngineOptions& options, EngineEnv env, EngineMemory memory)
      : model_(uses.model),
        ops_(uses.ops),
        options_(options),
        limits_{options.n_ctx, model_.info().n_vocab, memory.counts.n_blocks, options.block_tokens},
        env_(std::move(env)),
        arena_(std::move(memory.scratch)),
        cache_(model_.info().kv_layout,
               std::move(memory.blocks),
               {options.block_tokens, memory.counts.n_blocks, options.prefix_cache, nullptr,
                memory.counts.n_window_blocks}),
        scheduler_(options_, cache_, uses.policy, {mix64(model_.info().fingerprint ^ kNumericsVersion), 0, 0}) {
    publish(0);
  }
  ~LoopEngine() override { stop(); }

  Result<SeqId> submit(Request request, std::shared_ptr<EventSink> sink) override;
  void cancel(SeqId id) override { inbox_.cancel(id); }
  void start() override;
  void stop() override;
  bool step() override;
  EngineStats stats() const override {
    const std::lock_guard lock(stats_mutex_);
    return stats_;
  }
  Snapshot snapshot() const override;
  const EngineOptions& options() const override { return options_; }

 private:
  void drain(int64_t now_ns);
  bool run(const Plan& plan);
  void forward(const Plan& plan);
  void find_prompt_rows(const Plan& plan);
  void score_prompts(const Tensor& x, const Pass& pass);
  void emit_scores();
  void add_params(Sequence& seq);
  void emit(Sequence& seq, Sampled& sampled);
  void finish(Ended ended, int64_t now_ns);
  void record(EngineInput::Kind kind, SeqId seq, int64_t time_ns, const Request* request = nullptr) {
    if (env_.recorder != nullptr) env_.recorder->record({kind, seq, time_ns, request});
  }
  void decided(EngineDecision::Kind kind, SeqId seq, int64_t value) {
    if (env_.recorder != nullptr) env_.recorder->decided({kind, seq, value});
  }
  void tell_plan(const Plan& plan);
  void publish(int64_t step_ns);
  void count_holders(size_t group, Snapshot& out) const;
  // What passed since the last lap was `stage`.
  void lap(Stage stage) {
    if (env_.stage_clock == nullptr) return;
    const int64_t now = env_.stage_clock->now_ns();
    counts_.stage_ns[static_cast<size_t>(stage)] += now - lap_ns_;
    step_stage_ns_[static_cast<size_t>(stage)] += now - lap_ns_;
    lap_ns_ = now;
  }
  void cancel_all();
  // Nobody runs the loop, or this is the thread that does.
  bool on_engine_thread() const {
    const std::thread::id owner = owner_.load();
    return owner == std::thread::id() || owner == std::this_thread::get_id();
  }

  const Model& model_;
  Ops& ops_;
  const EngineOptions options_;
  const RequestLimits limits_;
  EngineEnv env_;
  Arena arena_;
  KvCache cache_;
  Scheduler scheduler_;
  Counters& counts_ = scheduler_.counters();
  Inbox inbox_;
  std::thread thread_;
  std::atomic<std::thread::id> owner_{};        // of the loop, while it runs in its own thread
  std::atomic<int> n_inbox_{0}, n_waiting_{0};  // together: submitted and not yet running

  // Engine thread, reused from step to step.
  std::vector<Message> messages_;
  std::vector<SampleParams> params_;
  std::vector<Sampled> sampled_;
  struct PromptRow {
    Sequence* seq;
    int32_t row;   // of the step; its logits are for
    int position;  // this token of the prompt
  };
  std::vector<PromptRow> prompt_rows_;
  std::vector<Sampled> scored_;  // of prompt_rows_
  Pooling pooling_;
  std::vector<Ended> ended_;
  TokenEvent event_;
  int64_t n_preempted_told_ = 0;
  int64_t lap_ns_ = 0;
  StageTimes step_stage_ns_{};
  Cost ended_cost_;

  mutable std::mutex stats_mutex_;
  EngineStats stats_;
};

Result<SeqId> LoopEngine::submit(Request request, std::shared_ptr<EventSink> sink) {
  QR_CHECK(sink != nullptr);
  QR_TRY_VOID(check_request(request, limits_));
  if (n_inbox_.fetch_add(1) + n_waiting_.load() >= options_.max_queue) {
    --n_inbox_;
    return fail(Code::exhausted, "the queue is full: " + std::to_string(options_.max_queue) + " requests wait");
  }
  auto rules = make_rules({request.sampling, request.prompt, request.stop_ids, limits_.n_vocab});
  request.rules.insert(request.rules.begin(), std::make_move_iterator(rules.begin()),
                       std::make_move_iterator(rules.end()));
  auto seq = std::make_unique<Sequence>();
  seq->submitted_ns = env_.clock->now_ns();
  seq->tokens = request.prompt;
  seq->n_prompt = static_cast<int>(request.prompt.size());
  seq->request = std::move(request);
  seq->sink = std::move(sink);
  const SeqId id = inbox_.submit(std::move(seq));
  if (id != 0) return id;
  --n_inbox_;
  return fail(Code::cancelled, "the engine has stopped");
}

void LoopEngine::start() {
  QR_CHECK(!thread_.joinable() && !inbox_.closed());
  thread_ = std::thread([this] {
    owner_ = std::this_thread::get_id();
    set_thread_name("qr-engine");
    while (!inbox_.closed()) {
      if (!step()) inbox_.wait();
    }
    owner_ = std::thread::id();
  });
}

void LoopEngine::stop() {
  const bool first = !inbox_.closed();
  inbox_.close();
  if (thread_.joinable()) thread_.join();
  if (first) cancel_all();
}

// REQUIRES a closed inbox and that nobody runs the loop.
void LoopEngine::cancel_all() {
  const int64_t now = env_.clock->now_ns();
  record(EngineInput::Kind::clock, 0, now);
  drain(now);
  std::vector<SeqId> ids;
  for (const auto& seq : scheduler_.running()) ids.push_back(seq->id);
  for (const auto& seq : scheduler_.waiting()) ids.push_back(seq->id);
  for (const SeqId id : ids) {
    record(EngineInput::Kind::cancel, id, now);
    finish({scheduler_.remove(id), Finish::cancelled, ""}, now);
  }
  publish(0);
  if (!ids.empty() && env_.on_step_end) env_.on_step_end();
}

void LoopEngine::drain(int64_t now_ns) {
  messages_.clear();
  inbox_.drain(messages_);
  for (Message& message : messages_) {
    if (message.submit != nullptr) {
      record(EngineInput::Kind::submit, message.submit->id, message.submit->submitted_ns, &message.submit->request);
      ++counts_.n_submitted;
      counts_.n_prompt_tokens += message.submit->n_prompt;
      scheduler_.add(std::move(message.submit));
      n_waiting_ = scheduler_.n_waiting();
      --n_inbox_;
    } else if (std::unique_ptr<Sequence> seq = scheduler_.remove(message.cancel)) {
      record(EngineInput::Kind::cancel, message.cancel, now_ns);
      finish({std::move(seq), Finish::cancelled, ""}, now_ns);
    }
  }
}

void LoopEngine::forward(const Plan& plan) {
  arena_.reset();
  const Batch batch = build_batch(plan, options_.block_tokens, arena_);
  lap(Stage::batch);
  Pass pass{&batch, cache_.view(), &arena_, &ops_};
  const Tensor x = model_.layers(model_.embed(pass), LayerRange{0, model_.info().n_layers}, pass);
  find_prompt_rows(plan);
  if (!prompt_rows_.empty()) score_prompts(x, pass);
  pooling_.take(plan, x, pass, model_, std::min(options_.max_seqs, options_.step_tokens));
  sampled_.resize(static_cast<size_t>(plan.n_out));
  if (plan.n_out == 0) return lap(Stage::forward);
  const Tensor logits = model_.head(x, pass);
  lap(Stage::forward);
  params_.clear();
  for (const Grant& grant : plan.grants) {
    if (grant.wants_output) add_params(*grant.seq);
  }
  ops_.sample(sampled_, logits, params_);
  lap(Stage::sample);
}

void LoopEngine::find_prompt_rows(const Plan& plan) {
  prompt_rows_.clear();
  int32_t first = 0;
  for (const Grant& grant : plan.grants) {
    Sequence& seq = *grant.seq;
    for (int i = 0; i < grant.n_tokens && seq.wants_scores(); ++i) {
      const int position = seq.n_computed + i + 1;
      if (position >= seq.n_scored && position < seq.n_prompt) prompt_rows_.push_back({&seq, first + i, position});
    }
    first += grant.n_tokens;
  }
}

// The logits of as many rows at a time as a step may have outputs: never a matrix of prompt × vocabulary.
void LoopEngine::score_prompts(const Tensor& x, const Pass& pass) {
  const auto most = static_cast<size_t>(std::min(options_.max_seqs, options_.step_tokens));
  if (scored_.size() < prompt_rows_.size()) scored_.resize(prompt_rows_.size());
  for (size_t at = 0; at < prompt_rows_.size(); at += most) {
    const size_t n = std::min(most, prompt_rows_.size() - at);
    const int64_t mark = arena_.mark();
    Batch batch = *pass.batch;
    batch.out_rows = arena_.alloc(DType::i32, {static_cast<int64_t>(n)});
    params_.clear();
    for (size_t i = 0; i < n; ++i) {
      const PromptRow& row = prompt_rows_[at + i];
      batch.out_rows.ptr<int32_t>()[i] = row.row;
      SampleParams& params = params_.emplace_back();
      params.forced = row.seq->tokens[static_cast<size_t>(row.position)];
      params.n_top = row.seq->request.sampling.n_prompt_logprobs;
    }
    const Tensor logits = model_.head(x, Pass{&batch, pass.kv, &arena_, &ops_});
    ops_.sample(std::span(scored_).subspan(at, n), logits, params_);
    arena_.release(mark);
  }
}

void LoopEngine::emit_scores() {
  for (size_t i = 0; i < prompt_rows_.size(); ++i) {
    const PromptRow& row = prompt_rows_[i];
    event_.id = row.seq->tokens[static_cast<size_t>(row.position)];
    event_.logprob = scored_[i].ok ? scored_[i].logprob : -std::numeric_limits<float>::infinity();
    event_.prompt = true;
    std::swap(event_.top, scored_[i].top);
    row.seq->n_scored = row.position + 1;
    row.seq->sink->on_token(row.seq->id, event_);
  }
  event_.prompt = false;
}

// A rule is its request's own code: what it throws ends that request and nobody else's.
void LoopEngine::add_params(Sequence& seq) {
  seq.edits.bitmask.clear();
  seq.edits.sparse = seq.request.sampling.logit_bias;
  try {
    for (const auto& rule : seq.request.rules) rule->edits(seq.edits);
  } catch (const std::exception& error) {
    seq.fault = error.what();
  }
  params_.push_back(sample_params(seq.request.sampling, static_cast<int64_t>(seq.tokens.size()), &seq.edits));
  for (const auto& rule : seq.request.rules) rule->shape(params_.back());
}

// False when the pass threw, a failed allocation say. Nothing of it is committed then: the sequences that it was for
// end with an error, all others go on.
bool LoopEngine::run(const Plan& plan) {
  std::string error;
  try {
    forward(plan);
    return true;
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  log_error("a step failed: " + error);
  scheduler_.fail_step("the step failed: " + error, ended_);
  return false;
}

void LoopEngine::tell_plan(const Plan& plan) {
  if (env_.recorder == nullptr) return;
  const int64_t n_preempted = counts_.n_preempted - std::exchange(n_preempted_told_, counts_.n_preempted);
  if (n_preempted > 0) decided(EngineDecision::Kind::preempt, 0, n_preempted);
  for (const Grant& grant : plan.grants) decided(EngineDecision::Kind::grant, grant.seq->id, grant.n_tokens);
}

void LoopEngine::emit(Sequence& seq, Sampled& sampled) {
  event_.id = sampled.token;
  event_.logprob = sampled.logprob;
  std::swap(event_.top, sampled.top);
  ++counts_.n_generated_tokens;
  decided(EngineDecision::Kind::token, seq.id, event_.id);
  seq.sink->on_token(seq.id, event_);
}

void LoopEngine::finish(Ended ended, int64_t now_ns) {
  const Sequence& seq = *ended.seq;
  counts_.n_finished += ended.finish == Finish::stop || ended.finish == Finish::length ? 1 : 0;
  counts_.n_cancelled += ended.finish == Finish::cancelled ? 1 : 0;
  counts_.n_failed += ended.finish == Finish::error ? 1 : 0;
  Usage usage;
  usage.n_prompt = seq.n_prompt;
  usage.n_generated = seq.n_generated();
  usage.n_cached = seq.n_cached;
  usage.queued_ns = (seq.admitted ? seq.started_ns : now_ns) - seq.submitted_ns;
  usage.first_token_ns = seq.first_token_ns < 0 ? 0 : seq.first_token_ns - seq.submitted_ns;
  usage.total_ns = now_ns - seq.submitted_ns;
  usage.cost = seq.cost;
  ended_cost_ += seq.cost;
  decided(EngineDecision::Kind::finish, seq.id, static_cast<int64_t>(ended.finish));
  seq.sink->on_finish(seq.id, ended.finish, usage, ended.error);
}

bool LoopEngine::step() {
  QR_DCHECK(on_engine_thread());
  const int64_t start = env_.clock->now_ns();
  record(EngineInput::Kind::clock, 0, start);
  if (env_.stage_clock != nullptr) lap_ns_ = env_.stage_clock->now_ns();
  step_stage_ns_ = {};
  drain(start);
  const Plan& plan = scheduler_.plan(start);
  n_waiting_ = scheduler_.n_waiting();  // who was admitted waits no more while the step computes
  const bool worked = !plan.grants.empty();
  if (worked) {
    lap(Stage::plan);
    tell_plan(plan);
    ended_.clear();
    const bool done = run(plan);
    const int64_t now = env_.clock->now_ns();
    record(EngineInput::Kind::clock, 0, now);
    ++counts_.n_steps;
    if (done) {
      emit_scores();
      scheduler_.charge_stages(step_stage_ns_);
      pooling_.emit();
      scheduler_.commit(sampled_, now, [this](Sequence& seq, Sampled& s) { emit(seq, s); }, ended_);
    }
    for (Ended& ended : ended_) finish(std::move(ended), now);
    lap(Stage::commit);
    publish(now - start);
  } else if (!messages_.empty()) {
    publish(0);
  }
  QR_CHECK(worked || scheduler_.idle(),
           "nothing can run though " + std::to_string(scheduler_.n_waiting()) + " sequences wait");
  if ((worked || !messages_.empty()) && env_.on_step_end) env_.on_step_end();
  return worked || !messages_.empty();
}

void LoopEngine::publish(int64_t step_ns) {
  EngineStats out{scheduler_.counters()};
  out.queue_ns = scheduler_.queue_ns();
  out.n_waiting = scheduler_.n_waiting();
  n_waiting_ = out.n_waiting;
  out.n_running = scheduler_.n_running();
  out.n_blocks = cache_.n_blocks();
  out.n_free_blocks = cache_.n_free_blocks();
  out.n_cached_blocks = cache_.n_cached_blocks();
  for (int g = 1; g < cache_.n_groups(); ++g) {
    out.n_window_blocks += cache_.pool(g).n_blocks();
    out.n_free_window_blocks += cache_.pool(g).n_free();
    out.n_cached_window_blocks += cache_.pool(g).n_cached();
  }
  out.step_ns = step_ns;
  const std::lock_guard lock(stats_mutex_);
  stats_ = out;
}

// Whether every block of the group has as many references as holders.
void LoopEngine::count_holders(size_t group, Snapshot& out) const {
  const BlockPool& pool = cache_.pool(static_cast<int>(group));
  std::vector<int> holders(static_cast<size_t>(pool.n_blocks()));
  for (const auto seqs : {scheduler_.running(), scheduler_.waiting()}) {
    for (const auto& seq : seqs) {
      for (const PrefixTree::Blocks& blocks : seq->kv.table) {
        if (blocks[group]) ++holders[static_cast<size_t>(blocks[group].id())];
      }
    }
  }
  for (int32_t b = 0; b < pool.n_blocks(); ++b) {
    const int n_held = holders[static_cast<size_t>(b)];
    const int expected = n_held + (pool.indexed(b) ? 1 : 0);
    (group == 0 ? out.n_held_blocks : out.n_held_window_blocks) += n_held > 0 ? 1 : 0;
    out.n_expected_refs += expected;
    out.n_refs += pool.n_refs(b);
    if (pool.n_refs(b) != expected && out.ref_error.empty()) {
      out.ref_error = "block " + std::to_string(b) + " of group " + std::to_string(group) + " has " +
                      std::to_string(pool.n_refs(b)) + " references and " + std::to_string(expected) + " holders";
    }
  }
}

Snapshot LoopEngine::snapshot() const {
  QR_DCHECK(on_engine_thread());
  Snapshot out;
  out.stats = stats();
  out.cost = ended_cost_;
  const auto see = [&](const Sequence& seq, bool running) {
    out.cost += seq.cost;
    out.seqs.push_back({seq.id, running, seq.n_prompt, static_cast<int>(seq.tokens.size()), seq.n_computed,
                        static_cast<int>(seq.kv.table.size()), n_window_blocks(seq)});
  };
  for (const auto& seq : scheduler_.running()) see(*seq, true);
  for (const auto& seq : scheduler_.waiting()) see(*seq, false);
  out.n_indexed_blocks = cache_.n_indexed_blocks();
  for (int g = 0; g < cache_.n_groups(); ++g) count_holders(static_cast<size_t>(g), out);
  out.tree_error = cache_.check();
  return out;
}

}  // namespace

Result<std::unique_ptr<Engine>> make_engine(const Model& model, Ops& ops, EngineOptions options, EngineEnv env) {
  QR_CHECK(env.clock != nullptr);
  const ModelInfo& info = model.info();
  if (options.n_ctx == 0) options.n_ctx = info.n_ctx;
  QR_TRY_VOID(check_options(options, info.kv_group));
  const PolicyEntry* policy = Registry<PolicyEntry>::get().find(options.policy);
  if (policy == nullptr) {
    std::string known;
    for (const std::string& name : Registry<PolicyEntry>::get().names()) known += " " + name;
    return fail(Code::invalid, "policy \"" + options.policy + "\" is unknown; there are:" + known);
  }
  const KvLayout& layout = info.kv_layout;
  if (options.kv_bytes == 0) options.kv_bytes = default_kv_bytes(options, layout);
  EngineMemory memory;
  QR_TRY(memory.counts, count_blocks(options, layout));
  for (int g = 0; g < layout.n_groups(); ++g) {
    const bool is_window = layout.group(g).kind == KvGroup::Kind::window;
    const int64_t n_blocks = is_window ? memory.counts.n_window_blocks : memory.counts.n_blocks;
    Buffer& blocks = memory.blocks.emplace_back();
    const int64_t bytes = n_blocks * layout.token_bytes(g) * options.block_tokens;
    if (bytes > 0) {
      QR_TRY(blocks, ops.allocate(bytes));
    }
  }
  QR_TRY(memory.scratch, ops.allocate(scratch_bytes(model, options)));
  return std::make_unique<LoopEngine>(EngineUses{model, ops, *policy->get()}, options, std::move(env),
                                      std::move(memory));
}

}  // namespace quire
