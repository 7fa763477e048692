#include "tests/sim/world.h"

#include <algorithm>
#include <map>

#include "engine/recording.h"
#include "engine/test_proposer.h"
#include "tests/sim/books.h"
#include "tests/sim/sim_remote.h"
#include "tests/sim/sim_tier.h"
#include "tests/sim/stream.h"

namespace quire::sim {
namespace {

constexpr int64_t kLongestStepNs = 1'000'000'000'000'000;  // however many faults make it slow

// The engine's clock: virtual time, and by how much a fault moved the clock away from it.
class SimClock final : public Clock {
 public:
  int64_t now_ns() override { return true_ns + offset_ns; }
  int64_t true_ns = 0, offset_ns = 0;
};

class World final : public InputRecorder {
 public:
  // `before`: one that ran and shared its store; null: nobody did. It outlives this.
  explicit World(const Script& script, World* before = nullptr)
      : script_(script),
        model_(script.knobs.n_ctx, 1, script.knobs.window, script.knobs.n_sinks),
        noise_(script.seed),
        books_(script, failure_),
        values_(before == nullptr ? own_values_ : before->own_values_) {
    if (before != nullptr) books_.shares_store_with(before->books_);
    model_.on_pass = [this](const Batch& batch) { pass(batch); };
  }

  Outcome run() {
    if (make()) {
      loop();
      finish();
    }
    out_.failure = failure_.text();
    out_.decisions = hash_.value();
    return std::move(out_);
  }

  void record(const EngineInput&) override {}
  void decided(const EngineDecision& d) override {
    hash_.add(d);
    if (d.kind == EngineDecision::Kind::grant) books_.grant(d.seq, static_cast<int>(d.value));
  }

 private:
  bool make();
  void make_tiers();
  bool waits(const Stream& stream) const;
  std::vector<Hash128> names_of(const Stream& stream) const;
  size_t n_wanted() const;
  int64_t n_come() const;
  void loop();
  bool wait_for_tier();
  void finish();
  void count_remote();
  void deliver();
  void submit(const RequestScript& request);
  std::string expected_refusal(const RequestScript& request) const;
  void cancel_due();
  bool step();
  void pass(const Batch& batch);
  void after_step();

  const Script& script_;
  Failure failure_;
  SimClock clock_;
  TestOps ops_;
  TestModel model_;
  Rng noise_;
  Books books_;
  std::vector<std::shared_ptr<TimedTier>> tiers_;  // nearest first
  std::shared_ptr<SimRemote> remote_;              // one of them, or null
  std::map<SeqId, std::vector<Hash128>> names_;    // of what is asked of it
  StoredValues own_values_;
  StoredValues& values_;
  int n_idle_ = 0;      // steps in a row in which nothing could be done but wait for them
  int64_t n_come_ = 0;  // blocks from them until then, had or not
  std::unique_ptr<Engine> engine_;
  std::map<SeqId, std::shared_ptr<Stream>> streams_;
  size_t next_request_ = 0;
  int n_in_inbox_ = 0;
  int64_t n_passes_ = 0;
  DecisionHash hash_;
  Outcome out_;
};

bool World::make() {
  const Knobs& knobs = script_.knobs;
  EngineOptions options;
  options.max_seqs = knobs.max_seqs;
  options.step_tokens = knobs.step_tokens;
  options.max_chunk = knobs.max_chunk;
  options.n_ctx = knobs.n_ctx;
  options.block_tokens = knobs.block_tokens;
  options.max_queue = knobs.max_queue;
  options.prefix_cache = knobs.prefix_cache;
  options.policy = knobs.policy;
  options.allowance = knobs.allowance;
  options.kv_policy = knobs.kv_policy;
  options.recompute_share = 0.01 * knobs.recompute_percent;
  options.itl_target_ms = knobs.itl_target_ms;
  options.step_target_ms = 1e-3 * knobs.step_target_us;
  options.max_draft = knobs.max_draft;
  options.max_side = knobs.max_side;
  const int64_t block_bytes = knobs.block_tokens * int64_t{sizeof(TestModel::Cell)};
  options.kv_bytes = knobs.n_blocks * block_bytes;
  if (script_.no_memory) ops_.max_allocation = options.kv_bytes - 1;
  if (knobs.window > 0) {
    options.n_window_blocks = knobs.n_window_blocks;
    options.kv_bytes += knobs.n_window_blocks * block_bytes;
  }
  EngineEnv env;
  env.clock = &clock_;
  env.recorder = this;
  if (knobs.max_draft > 0) {
    env.proposer = std::make_shared<ScriptedProposer>(
        knobs.max_draft, kTestVocab, knobs.guess,
        [this](SeqId id) -> std::span<const Token> { return streams_.at(id)->truth.tokens; });
  }
  make_tiers();
  env.tiers.assign(tiers_.begin(), tiers_.end());
  auto made = make_engine(model_, ops_, options, env);
  out_.counts.runs = 1;
  out_.ttft_ns.resize(script_.requests.size());
  out_.counts.no_memory = script_.no_memory ? 1 : 0;
  if (made) engine_ = std::move(*made);
  if (made && script_.no_memory) failure_.set("an engine was made though its cache could not be allocated");
  if (!made && !script_.no_memory) failure_.set("no engine: " + made.error().message);
  return engine_ != nullptr && !failure_.any();
}

void World::make_tiers() {
  const Knobs& knobs = script_.knobs;
  StoreShape shape{model_.info().fingerprint, knobs.block_tokens, {}};
  const KvLayout& layout = model_.info().kv_layout;
  for (int g = 0; g < layout.n_groups(); ++g) shape.group_bytes.push_back(layout.block_bytes(g, knobs.block_tokens));
  if (knobs.tier_blocks > 0) tiers_.push_back(std::make_shared<SimTier>(script_, shape));
  if (knobs.remote_blocks > 0) tiers_.push_back(remote_ = std::make_shared<SimRemote>(script_, shape, values_));
  if (!tiers_.empty()) books_.tier([this](const Stream& stream) { return n_wanted() > 0 && waits(stream); });
}

// What the blocks of a stream's prompt and answer are called below memory.
std::vector<Hash128> World::names_of(const Stream& stream) const {
  const std::vector<Token> tokens = tokens_of(stream);
  const Prefix prefix{tokens, {model_.info().fingerprint, 0, stream.script->salt}, {}, n_public_of(*stream.script), 0};
  const PrefixBlocks blocks{prefix, script_.knobs.block_tokens};
  const PathHasher hasher = PathHasher::of_names();
  std::vector<Hash128> out;
  Hash128 above = hasher.root(blocks.key(0));
  for (int b = 0; b < static_cast<int>(tokens.size()) / script_.knobs.block_tokens; ++b)
    out.push_back(above = hasher.block(above, blocks, b));
  return out;
}

// What somebody has a right to still.
size_t World::n_wanted() const {
  size_t out = 0;
  for (const auto& tier : tiers_) out += tier->n_wanted();
  return out;
}

int64_t World::n_come() const {
  int64_t out = 0;
  for (const auto& tier : tiers_) out += tier->counts().given + tier->counts().lost;
  return out;
}

// Whether a tier has something of a stream's past under way.
bool World::waits(const Stream& stream) const {
  const std::vector<Token> tokens = tokens_of(stream);
  return std::ranges::any_of(tiers_, [&](const auto& tier) {
    return tier->brings(tokens, script_.knobs.block_tokens) || tier->answers(names_.at(stream.seq));
  });
}

// Nothing can be computed. Until a block comes, somebody arrives or a load is late, whichever is first; by longer and
// longer steps, for the clock may have jumped back. False: nobody waits for a tier.
bool World::wait_for_tier() {
  if (tiers_.empty() || streams_.empty()) return false;
  const int64_t n_come = this->n_come();
  if (std::exchange(n_come_, n_come) != n_come) n_idle_ = 0;
  if (++n_idle_ > 100) failure_.set("nothing has happened for a hundred looks at the tiers");
  constexpr int64_t kLook = 10'000'000;
  int64_t until_ns = clock_.true_ns + (kLook << std::min(n_idle_ / 4, 24));
  for (const auto& tier : tiers_) {
    if (const int64_t next = tier->next_ns(); next >= 0) until_ns = std::min(until_ns, next);
  }
  if (next_request_ < script_.requests.size())
    until_ns = std::min(until_ns, script_.requests[next_request_].arrival_ns);
  clock_.true_ns = std::max(clock_.true_ns + 1, until_ns);
  return true;
}

void World::loop() {
  int64_t work = 100;  // every step advances somebody by at least one token
  for (const RequestScript& r : script_.requests) {
    work += 4 * (r.max_tokens + 1);
    for (const Piece& piece : r.prompt) work += 4 * piece.n;
  }
  while (!failure_.any()) {
    deliver();
    if (step()) {
      if (++out_.counts.steps > work) failure_.set("still busy after " + std::to_string(work) + " steps");
      n_idle_ = 0;
      continue;
    }
    if (wait_for_tier()) continue;
    if (next_request_ == script_.requests.size()) return;
    clock_.true_ns = std::max(clock_.true_ns, script_.requests[next_request_].arrival_ns);
  }
}

void World::deliver() {
  while (next_request_ < script_.requests.size() && script_.requests[next_request_].arrival_ns <= clock_.true_ns &&
         !failure_.any()) {
    submit(script_.requests[next_request_++]);
  }
  cancel_due();
}

void World::cancel_due() {
  for (auto& [id, stream] : streams_) {
    if (stream->cancel_at_ns < 0 || stream->cancel_at_ns > clock_.true_ns || stream->cancelled) continue;
    if (!stream->live()) continue;
    engine_->cancel(id);
    stream->cancelled = true;
    out_.counts.cancelled_loading += waits(*stream) ? 1 : 0;
  }
}

// The words that must be in the refusal; empty when the request has to be taken.
std::string World::expected_refusal(const RequestScript& request) const {
  const Knobs& knobs = script_.knobs;
  const auto n_prompt = static_cast<int>(prompt_of(request).size());
  if (n_prompt >= knobs.n_ctx) return std::to_string(n_prompt);
  const int n_tokens = n_prompt + std::min(request.max_tokens, knobs.n_ctx - n_prompt) - 1;
  const int n_blocks = (n_tokens + knobs.block_tokens - 1) / knobs.block_tokens;
  if (n_blocks > knobs.n_blocks) {
    return "need " + std::to_string(n_blocks) + " cache blocks; there are " + std::to_string(knobs.n_blocks);
  }
  const int n_free = knobs.max_queue * 9 / 8 - n_in_inbox_ - static_cast<int>(engine_->stats().n_waiting);
  if (n_free <= 0) return "the queue is full";
  const auto n_own = std::ranges::count_if(streams_, [&](const auto& entry) {
    return entry.second->in_queue && entry.second->script->tenant == request.tenant;
  });
  return n_own >= knobs.max_queue || n_own > int64_t{8} * n_free ? "the queue is full" : "";
}

void World::submit(const RequestScript& request) {
  const std::string refusal = expected_refusal(request);
  auto stream = std::make_shared<Stream>(request, script_.knobs.n_ctx, failure_);
  const auto id = engine_->submit(request_of(request), stream);
  if (id.has_value() != refusal.empty()) {
    failure_.set(id ? "taken, though: " + refusal : "refused for no reason: " + id.error().message);
  }
  if (!id) {
    if (id.error().message.find(refusal) == std::string::npos) {
      failure_.set("\"" + id.error().message + "\" does not say \"" + refusal + "\"");
    }
    out_.counts.too_long += id.error().code == Code::invalid ? 1 : 0;
    out_.counts.queue_full += refusal == "the queue is full" ? 1 : 0;
    out_.counts.never_fits += refusal.starts_with("need") ? 1 : 0;
    return;
  }
  ++n_in_inbox_;
  ++out_.counts.submitted;
  stream->seq = *id;
  if (!tiers_.empty()) names_.emplace(*id, names_of(*stream));
  stream->submitted_ns = clock_.now_ns();
  if (request.cancel_ns >= 0) stream->cancel_at_ns = clock_.true_ns + request.cancel_ns;
  books_.submitted(*stream);
  streams_.emplace(*id, std::move(stream));
}

bool World::step() {
  books_.before_step(engine_->snapshot());
  for (const auto& tier : tiers_) tier->tell_time(clock_.true_ns);
  const bool busy = engine_->step();
  n_in_inbox_ = 0;
  if (!failure_.any()) after_step();
  return busy;
}

// What the pass costs, what befalls it.
void World::pass(const Batch& batch) {
  const Knobs& knobs = script_.knobs;
  ++n_passes_;
  const int64_t n_rows = batch.ids.dim(0);
  books_.pass(batch);
  for (const auto& [id, n] : books_.grants()) streams_.at(id)->in_queue = false;
  int64_t context = 0;
  for (const int32_t end : batch.attn.end_key.span<int32_t>()) context += end;
  int64_t ns = knobs.base_ns + knobs.row_ns * n_rows + knobs.context_ns * context;
  if (knobs.noise > 0) ns += ns * noise_.between(-knobs.noise, knobs.noise) / 100;
  const StepFault* thrown = nullptr;
  for (const StepFault& fault : script_.faults) {
    if (fault.step != n_passes_) continue;
    if (fault.kind == StepFault::Kind::slow) ns = std::min(ns, kLongestStepNs / fault.value) * fault.value;
    if (fault.kind == StepFault::Kind::jump) clock_.offset_ns += fault.value;
    if (fault.kind == StepFault::Kind::throws) thrown = &fault;
    out_.counts.slow += fault.kind == StepFault::Kind::slow ? 1 : 0;
    out_.counts.jumps += fault.kind == StepFault::Kind::jump ? 1 : 0;
  }
  clock_.true_ns += ns;
  if (thrown == nullptr) {
    out_.counts.rows += n_rows;
    return;
  }
  ++out_.counts.throws;
  for (const auto& [id, n] : books_.grants()) streams_.at(id)->step_threw = true;
  if (thrown->value == 0) throw std::bad_alloc();
  throw std::runtime_error("a fault of the step");
}

void World::after_step() {
  const Snapshot now = engine_->snapshot();
  books_.after_step(now, out_.counts.rows);
  for (auto at = streams_.begin(); at != streams_.end();) {
    Stream& stream = *at->second;
    if (stream.live()) {
      if (stream.cancelled) failure_.set(stream.name() + " outlived its cancellation by a step");
      ++at;
      continue;
    }
    books_.ended(stream);
    out_.ttft_ns[static_cast<size_t>(stream.script - script_.requests.data())] = stream.usage.first_token_ns;
    out_.counts.too_late += stream.error == kTooLate ? 1 : 0;
    out_.counts.row_faults[static_cast<size_t>(stream.script->fault)] += stream.finish == Finish::error ? 1 : 0;
    names_.erase(stream.seq);
    at = streams_.erase(at);
  }
  books_.check_live(now);
}

void World::count_remote() {
  if (remote_ == nullptr) return;
  const SimRemote::Told& told = remote_->told();
  out_.counts.asked = told.asked, out_.counts.answered = told.answered, out_.counts.lies = told.lies;
  out_.counts.full = told.full, out_.counts.away = told.away;
  out_.counts.brought = remote_->counts().given;
}

void World::finish() {
  if (failure_.any()) return;
  if (!streams_.empty()) failure_.set(streams_.begin()->second->name() + " never ends");
  const Snapshot end = engine_->snapshot();
  if (const int n = end.n_held_blocks + end.n_held_window_blocks; n != 0) {
    failure_.set(std::to_string(n) + " blocks are held though all is over");
  }
  if (end.stats.n_submitted != out_.counts.submitted) failure_.set("submissions are miscounted");
  if (end.stats.n_finished + end.stats.n_cancelled + end.stats.n_failed != out_.counts.submitted) {
    failure_.set("not every submission has one end");
  }
  if (n_wanted() > 0) failure_.set("a tier's read is claimed though all is over");
  for (const auto& tier : tiers_) out_.counts.stalled += tier->counts().stalled;
  count_remote();
  out_.counts.loaded = end.stats.n_loaded_tokens;
  out_.counts.loads = end.stats.n_loads;
  out_.counts.overtaken = end.stats.n_loads_overtaken;
  out_.counts.loads_lost = end.stats.n_loads_lost;
  out_.counts.preempted_loading = books_.n_preempted_loading();
  out_.counts.apart = books_.n_apart();
  out_.counts.finished = end.stats.n_finished;
  out_.counts.cancelled = end.stats.n_cancelled;
  out_.counts.failed = end.stats.n_failed;
  out_.counts.preempted = end.stats.n_preempted;
  out_.counts.cached = end.stats.n_cached_tokens;
  out_.counts.drafted = end.stats.spent.computed[static_cast<size_t>(Cause::draft)];
  out_.counts.accepted = end.stats.spent.n_accepted;
  out_.counts.bad_drafts = end.stats.n_bad_drafts;
  out_.counts.recomputed = end.stats.spent.computed[static_cast<size_t>(Cause::recomputed)];
  out_.counts.out_of_blocks = end.stats.n_out_of_blocks;
  out_.counts.strict = books_.recomputed().n_strict();
  out_.end_ns = clock_.true_ns;
  out_.served = books_.service().together();
  if (out_.counts.recomputed > 0 && out_.counts.preempted == 0) {
    failure_.set("tokens were computed again though nobody was preempted");
  }
}

}  // namespace

void Counts::add(const Counts& o) {
  runs += o.runs, steps += o.steps, rows += o.rows, submitted += o.submitted, finished += o.finished;
  cancelled += o.cancelled, failed += o.failed, preempted += o.preempted, recomputed += o.recomputed;
  drafted += o.drafted, accepted += o.accepted, bad_drafts += o.bad_drafts;
  out_of_blocks += o.out_of_blocks, strict += o.strict;
  cached += o.cached, too_long += o.too_long, never_fits += o.never_fits, queue_full += o.queue_full;
  loaded += o.loaded, loads += o.loads, overtaken += o.overtaken, loads_lost += o.loads_lost;
  cancelled_loading += o.cancelled_loading, preempted_loading += o.preempted_loading, stalled += o.stalled;
  asked += o.asked, answered += o.answered, lies += o.lies, brought += o.brought, full += o.full, away += o.away;
  too_late += o.too_late, no_memory += o.no_memory, slow += o.slow, jumps += o.jumps, throws += o.throws;
  apart += o.apart;
  for (size_t i = 0; i < row_faults.size(); ++i) row_faults[i] += o.row_faults[i];
}

std::string Counts::text() const {
  const std::pair<const char*, int64_t> all[] = {{"runs", runs},
                                                 {"steps", steps},
                                                 {"rows", rows},
                                                 {"requests", submitted},
                                                 {"finished", finished},
                                                 {"cancelled", cancelled},
                                                 {"failed", failed},
                                                 {"preempted", preempted},
                                                 {"for want of blocks", out_of_blocks},
                                                 {"let in where nothing may be lost", strict},
                                                 {"rows recomputed", recomputed},
                                                 {"tokens cached", cached},
                                                 {"drafted", drafted},
                                                 {"accepted", accepted},
                                                 {"bad drafts", bad_drafts},
                                                 {"too long", too_long},
                                                 {"never fit", never_fits},
                                                 {"queue full", queue_full},
                                                 {"no memory", no_memory},
                                                 {"too late", too_late},
                                                 {"slow steps", slow},
                                                 {"clock jumps", jumps},
                                                 {"steps that threw", throws},
                                                 {"sinks apart from windows", apart},
                                                 {"tokens loaded", loaded},
                                                 {"loads", loads},
                                                 {"overtaken", overtaken},
                                                 {"lost", loads_lost},
                                                 {"cancelled while loading", cancelled_loading},
                                                 {"sent back while loading", preempted_loading},
                                                 {"stalled reads", stalled},
                                                 {"asked", asked},
                                                 {"answered", answered},
                                                 {"lies", lies},
                                                 {"brought from a store", brought},
                                                 {"store full", full},
                                                 {"store away", away}};
  std::string out;
  for (const auto& [name, n] : all) out += (out.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(n);
  out += ", row faults";
  for (size_t i = 1; i < row_faults.size(); ++i) out += " " + std::to_string(row_faults[i]);
  return out;
}

Outcome run(const Script& script) {
  World before(script);
  if (script.knobs.remote_blocks == 0 || !script.knobs.remote_before) return before.run();
  Outcome out = before.run();
  return out.failure.empty() ? World(script, &before).run() : out;
}

}  // namespace quire::sim
