#include "engine/scheduler.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine/limits.h"

namespace quire {
namespace {

constexpr int kLeastChunk = 16;      // of a prompt in every step, whatever it takes: else it might never end
constexpr int kLookUpBlocks = 1024;  // of waiting prompts in one step: deep queues cost no more
constexpr double kMeanStep = 1.0 / 16;
constexpr int64_t kHitPlans = 32;  // for so many steps a look-up counts

// Room for n; false where there is no memory for it.
template <class T>
bool reserve(std::vector<T>& out, size_t n) {
  try {
    out.reserve(n);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Of the grant's rows those of its prompt that were computed for the first time. When the sequence has moved on.
int n_new_prompt(const Grant& grant) {
  const Sequence& seq = *grant.seq;
  const int begin = seq.n_computed - grant.n_tokens, end = std::min(seq.n_computed, seq.n_prompt);
  return std::max(0, end - begin - grant.n_recomputed);
}

}  // namespace

Scheduler::Scheduler(const EngineOptions& options, KvCache& cache, const Policy& policy, const CacheKey& key)
    : options_(options),
      cache_(cache),
      policy_(policy),
      pasts_(cache, key, accounts_),
      leaders_(pasts_, options.prefix_cache),
      growth_(options.recompute_share, int64_t{cache.n_blocks()} * cache.block_tokens()),
      swaps_(cache, accounts_, std::max<int64_t>(options.swap_bytes, 0)),
      tenants_(options.allowance) {
  running_.reserve(static_cast<size_t>(max_running()));
  plan_.grants.reserve(static_cast<size_t>(max_running()));
  ahead_.grants.reserve(static_cast<size_t>(max_running()));
  growing_.reserve(static_cast<size_t>(max_running()) + 1);
  if (options.step_target_ms > 0) streams_.reserve(static_cast<size_t>(max_running()));
}

void Scheduler::draft_with(std::shared_ptr<Proposer> proposer, const DraftLimits& limits, InputRecorder* recorder) {
  drafting_ = std::make_unique<Drafting>(std::move(proposer), limits, accounts_, recorder);
}

void Scheduler::load_from(TierChain& tiers, BlockWatcher* watcher) {
  loads_ = std::make_unique<Loads>(Loads::Uses{pasts_, accounts_, step_cost_, tiers, watcher});
}

// For one more, wherever it will be and whatever its place: any that runs may wait again.
void Scheduler::make_room(uint64_t tenant) {
  constexpr size_t kFirst = 16;
  const size_t n = running_.size() + waiting_.size() + 1;
  const size_t room = n <= kFirst ? kFirst : 2 * n;
  if (order_.capacity() < n) {
    waiting_.reserve(room);
    sorted_.reserve(room);
    candidates_.reserve(room);
    order_.reserve(room);
  }
  tenants_.of(tenant);
}

void Scheduler::add(std::unique_ptr<Sequence>&& seq) {
  make_room(seq->request.tenant);
  enter(*seq);
  n_pending_waiting_ += static_cast<int64_t>(seq->tokens.size());
  waiting_.push_back(std::move(seq));
}

std::unique_ptr<Sequence> Scheduler::remove(SeqId id) {
  for (Seqs* seqs : {&running_, &waiting_}) {
    const auto at = std::find_if(seqs->begin(), seqs->end(), [id](const auto& seq) { return seq->id == id; });
    if (at == seqs->end()) continue;
    std::unique_ptr<Sequence> out = std::move(*at);
    seqs->erase(at);
    if (seqs == &waiting_) {
      n_pending_waiting_ -= static_cast<int64_t>(out->tokens.size());
      Tenants::waits_no_more(*out->tenant);
    }
    if (ahead_.drop(*out)) ++accounts_.counters().n_dropped_rows;
    out->load = nullptr;
    swaps_.drop(*out, false);
    growth_.find_again(*out, out->n_at_stake);
    cache_.release(out->kv);
    leave(*out);
    if (drafting_ != nullptr) drafting_->forget(id);
    return out;
  }
  return nullptr;
}

Candidate Scheduler::candidate(const Sequence& seq, bool by_service) {
  return {seq.id,
          seq.submitted_ns,
          seq.request.priority,
          seq.n_pending(),
          seq.n_prompt,
          std::min(seq.n_hit, seq.n_prompt),
          turn(seq),
          by_service ? seq.tenant->served : 0,
          deadline_of(seq),
          seq.tenant->within};
}

void Scheduler::sort(Seqs& seqs, bool by_service) {
  candidates_.clear();
  order_.clear();
  for (const auto& seq : seqs) {
    order_.push_back(static_cast<int>(candidates_.size()));
    candidates_.push_back(candidate(*seq, by_service));
  }
  policy_.order(candidates_, order_);
  if (std::is_sorted(order_.begin(), order_.end())) return;
  sorted_.clear();
  for (int i : order_) sorted_.push_back(std::move(seqs[static_cast<size_t>(i)]));
  std::move(sorted_.begin(), sorted_.end(), seqs.begin());
}

// In the order of the queue, so that who is about to be admitted is known best.
void Scheduler::look_up_hits() {
  int budget = kLookUpBlocks;
  for (const auto& seq : waiting_) {
    if (budget <= 0) return;
    if (seq->probed_plan > 0 && n_plans_ - seq->probed_plan < kHitPlans) continue;
    seq->n_hit = cache_.peek(pasts_.findable_of(*seq));
    seq->probed_plan = n_plans_;
    budget -= 1 + seq->n_hit / cache_.block_tokens();
  }
}

// How many of n rows the targets of the time between tokens and of steps leave room for.
int Scheduler::affordable(const Sequence& seq, int n) const {
  const double most_ns = most_step_ns();
  if (most_ns <= 0 || plan_.shape.n_decode == 0) return n;
  const int least = plan_.shape.n_prefill == 0 ? std::min(n, kLeastChunk) : 0;
  return std::max(least, step_cost_.fit(plan_.shape, seq.n_computed, n, most_ns));
}

const Plan& Scheduler::plan(int64_t now_ns) {
  QR_DCHECK(!is_ahead());
  const bool nobody_moved = plan_.grants.empty();
  plan_.clear();
  ++n_plans_;
  planned_ns_ = now_ns;
  preempted_now_ = waiting_sorted_ = false;
  starved_ = way_made_ = 0;
  if (policy_.wants_allowances()) count_pending();
  tenants_.begin_plan();
  sort(running_, false);
  for (size_t i = 0; i < running_.size(); ++i) running_[i]->place = static_cast<int>(i);
  if (loads_ != nullptr) loads_->poll(running_, now_ns, nobody_moved);
  make_way();
  Leaders::lend_places(running_);
  choose_streams();
  grant_running(true);
  if (drafting_ != nullptr) grant_drafts();
  grant_running(false);
  admit(nullptr);
  plan_.group_adapters();
  plan_.place();
  tenants_.end_plan();
  return plan_;
}

std::unique_ptr<Sequence> Scheduler::take_starved() {
  return starved_ == 0 ? nullptr : remove(std::exchange(starved_, 0));
}

void Scheduler::give(Sequence& seq, int n_tokens) {
  QR_DCHECK(cache_.exclusive(seq.kv, seq.n_computed, seq.n_computed + n_tokens), "a block has two writers");
  seq.moved_plan = n_plans_;
  const int n_recomputed = std::clamp(seq.account.n_ever_computed - seq.n_computed, 0, n_tokens);
  plan_.add(
      {.seq = &seq, .n_tokens = n_tokens, .n_out = n_tokens == seq.n_pending() ? 1 : 0, .n_recomputed = n_recomputed});
}

// For what a tier brings, or for a leader; who has waited for a tier may find a leader now.
bool Scheduler::waits(Sequence& seq) {
  if (seq.load != nullptr) return true;
  if (std::exchange(seq.loaded, false)) leaders_.find(seq, running_, n_plans_);
  return leaders_.waits(seq, running_, n_plans_);
}

void Scheduler::grant_running(bool decoding) {
  for (size_t i = 0; i < running_.size();) {
    Sequence& seq = *running_[i];
    if (plan_.n_tokens >= options_.step_tokens) return;
    const bool granted = seq.follows.leader == 0 && seq.moved_plan == n_plans_;
    if (granted || (seq.n_pending() == 1) != decoding || (decoding && seq.pauses) || waits(seq)) {
      ++i;
      continue;
    }
    if (!decoding) admit_before(i);
    const int budget = options_.step_tokens - plan_.n_tokens;
    if (budget <= 0) return;
    const bool begun = pasts_.finish_virtual(seq) && pasts_.drop(seq);
    if (begun && !decoding) accounts_.reused(seq, pasts_.begin_block(seq));
    const int n = decoding ? 1 : affordable(seq, std::min({seq.n_grantable(), budget, options_.max_chunk}));
    if (n == 0) return;
    if (begun && cache_.grow(seq.kv, seq.n_computed + n, n_running() - 1)) {
      give(seq, n);
      ++i;
    } else if (!begun && n_running() == 1) {
      // There was room when it came in: a device failed to copy what it begins with.
      starved_ = seq.id;
      return;
    } else if (!take_back_branches() && !take_back_drafts()) {
      // From the beginning: what is preempted may have been somebody's leader, in front or behind.
      preempt(last(), SentBack::for_blocks);
      i = 0;
    }
  }
}

// By number. Of the policy's order, so that nobody waits while one that came behind runs: places that are lent count in
// turns alone. A leader's past is in the tree then, where those who waited for it find it.
size_t Scheduler::last() const {
  const auto at = std::max_element(running_.begin(), running_.end(),
                                   [](const auto& a, const auto& b) { return a->place < b->place; });
  return static_cast<size_t>(at - running_.begin());
}

void Scheduler::preempt(size_t i, SentBack why) {
  Sequence& victim = *running_[i];
  plan_.drop(victim);
  victim.draft.clear();
  victim.branches.clear();
  victim.load = nullptr;
  pasts_.index(victim);
  swaps_.out(victim);
  pasts_.give_back(victim);
  victim.follows.leader = 0;
  victim.stream_turn = 0;
  victim.preempted = true;
  ++victim.n_preempted;
  victim.sent_back = why;
  if (why == SentBack::for_blocks) {
    growth_.lose(victim);
    ++accounts_.counters().n_out_of_blocks;
  }
  victim.gave_way |= why == SentBack::for_turn;
  Tenants::waits(*victim.tenant);
  n_pending_waiting_ += static_cast<int64_t>(victim.tokens.size());
  waiting_.push_back(std::move(running_[i]));
  waiting_sorted_ = false;
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  ++accounts_.counters().n_preempted;
  preempted_now_ = true;
}

void Scheduler::sort_waiting() {
  if (waiting_sorted_) return;
  if (policy_.wants_hits()) look_up_hits();
  sort(waiting_, true);
  waiting_sorted_ = true;
}

// Those that go before `other`, which runs; null: all. Nobody in a step in which blocks or memory ran out.
void Scheduler::admit(const Sequence* other) {
  if (waiting_.empty()) return;
  halt_ = {Hold::pressure};
  if (preempted_now_ || starved_ != 0) return;
  if (full()) return;
  sort_waiting();
  size_t n_admitted = 0;
  for (; n_admitted < waiting_.size(); ++n_admitted) {
    if (full()) break;
    Sequence& seq = *waiting_[n_admitted];
    if (other != nullptr && !passes(seq, *other)) break;
    if (!admit_one(seq, options_.step_tokens - plan_.n_tokens)) break;
    seq.place = other != nullptr ? other->place : n_running();
    Tenants::waits_no_more(*seq.tenant);
    if (!seq.admitted) {
      seq.admitted = true;
      seq.started_ns = planned_ns_;
      seq.n_hit = seq.account.n_cached;
    }
    n_pending_waiting_ -= static_cast<int64_t>(seq.tokens.size());
    running_.push_back(std::move(waiting_[n_admitted]));
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n_admitted));
}

// Whether nobody more may be admitted in this plan, for want of a place or of rows.
bool Scheduler::full() {
  if (n_running() >= max_running())
    halt_ = {Hold::places, max_running()};
  else if (is_full())
    halt_ = {Hold::budget, options_.step_tokens};
  else
    return false;
  return true;
}

// Beside others: all that is pending and the next token must fit, and a block for each that runs, else it would be
// preempted at once. Alone: what submit() found to fit.
KvCache::Shortage Scheduler::shortage(const Sequence& seq) const {
  const int n_all = static_cast<int>(seq.tokens.size()) + (running_.empty() ? 0 : 1);
  const int n_step = std::min(options_.step_tokens, options_.max_chunk);
  return cache_.shortage(seq.kv, {n_all, n_step, n_running()});
}

// Room for all that it may come to, so that no step allocates. False, and it is starved: there is no memory.
bool Scheduler::reserve_table(Sequence& seq) {
  const int64_t most = int64_t{seq.n_prompt} + seq.request.max_tokens;
  if (reserve(seq.kv.table, static_cast<size_t>(most / cache_.block_tokens() + 1))) return true;
  starved_ = seq.id;
  return false;
}

bool Scheduler::reserve_tokens(Sequence& seq) {
  if (seq.admitted || reserve(seq.tokens, seq.tokens.size() + static_cast<size_t>(seq.request.max_tokens))) return true;
  starved_ = seq.id;
  return false;
}

// What is known of its past: its own copy where that has more than the tree, as far as there is room for it.
KvCache::Shortage Scheduler::begin(Sequence& seq, bool& restored) {
  pasts_.begin(seq);
  if (swaps_.pays(seq)) {
    pasts_.give_back(seq);
    seq.kv.n_lead = seq.n_prompt - 1;
    seq.kv.whose = seq.request.tenant;
    restored = !shortage(seq) && swaps_.in(seq);
    if (!restored) pasts_.begin(seq);
  }
  return shortage(seq);
}

// Takes what is cached and grants the next of it, or lets it wait for a leader; false, with nothing changed, where
// there is no room yet, or no memory.
bool Scheduler::admit_one(Sequence& seq, int budget) {
  if (!reserve_table(seq)) return false;
  bool restored = false;
  KvCache::Shortage lack = begin(seq, restored);
  if (!lack) lack = shortage_ahead(seq);
  halt_ = {lack.of_states ? Hold::states : Hold::blocks, lack.wanted, lack.have};
  bool fits = !lack && reserve_tokens(seq);
  if (fits && !restored) leaders_.find(seq, running_, n_plans_);
  const bool loads =
      fits && !restored && seq.follows.leader == 0 && loads_ != nullptr && loads_->begin(seq, planned_ns_);
  const bool waits = seq.follows.leader != 0 || loads;
  const bool begun = fits && (waits || pasts_.finish_virtual(seq));
  if (fits && !begun && running_.empty()) starved_ = seq.id;  // as in grant_running
  fits = begun;
  int n = waits ? 0 : affordable(seq, std::min({seq.n_grantable(), budget, options_.max_chunk}));
  if (fits && !waits && n == 0) halt_ = {Hold::step_time};
  if (fits && n > 0 && pasts_.begin_block(seq) > 0) n = std::min(n, seq.n_grantable());
  if (!fits || (!waits && (n == 0 || !cache_.grow(seq.kv, seq.n_computed + n, n_running())))) {
    pasts_.give_back(seq);
    return false;
  }
  pasts_.take(seq, std::exchange(seq.n_computed, 0));
  swaps_.drop(seq, restored);
  growth_.find_again(seq, seq.n_computed);
  if (n > 0) give(seq, n);
  seq.moved_plan = loads ? 0 : n_plans_;
  return true;
}

void Scheduler::advance() {
  for (const Grant& grant : plan_.grants) grant.seq->n_computed += grant.n_tokens;
}

// Behind advance(), of a step that did not fail.
void Scheduler::charge_rows() {
  for (const Grant& grant : plan_.grants) {
    accounts_.computed(grant);
    growth_.computed(grant.n_tokens - grant.n_recomputed - grant.n_drafted);
    Tenants::charge(*grant.seq->tenant, n_new_prompt(grant), 0);
  }
}

int64_t Scheduler::queue_ns() const {
  if (step_cost_.n_observed() == 0) return 0;
  const int n_seqs = max_running();
  const double prefill_ns = prompt_token_ns();
  StepShape decode;
  decode.n_decode = n_seqs;
  const double decode_ns = step_cost_.predict_ns(decode) / n_seqs;
  return static_cast<int64_t>(prefill_ns * static_cast<double>(n_pending_waiting_) +
                              decode_ns * mean_generated_ * static_cast<double>(waiting_.size()));
}

void Scheduler::fail_step(std::string_view error, std::vector<Ended>& ended) {
  ahead_.clear();  // nothing of it counts, whether or not it was asked for
  for (const Grant& grant : plan_.grants) ended.push_back({remove(grant.seq->id), Finish::error, failure({error})});
}

void Scheduler::commit(std::span<Sampled> sampled, int64_t now_ns, const EmitToken& emit, std::vector<Ended>& ended) {
  committed_ns_ = now_ns;
  charge_rows();
  const int64_t step_ns = std::max<int64_t>(now_ns - planned_ns_, 0);
  step_cost_.observe(plan_.shape, step_ns);
  accounts_.step(plan_, running_, cache_.block_tokens(), step_ns);
  const Taking how{options_.n_ctx, now_ns, emit};
  size_t out = 0;
  int first = 0;
  for (const Grant& grant : plan_.grants) {
    Sequence& seq = *grant.seq;
    Ended end;
    const int n_before = seq.n_generated();
    const Taken taken = take_tokens(grant, sampled, out, how, end);
    Tenants::charge(*seq.tenant, 0, seq.n_generated() - n_before);
    if (grant.n_out > 0) tap(grant, taken, static_cast<int>(out), first);
    out += static_cast<size_t>(grant.n_out);
    first += grant.n_tokens;
    settle(grant, taken);
    // What led to logits that are not finite is not for others to find.
    if (!taken.over || end.finish != Finish::error) pasts_.index(seq);
    cache_.slide(seq.kv, seq.n_computed);
    if (!taken.over) continue;
    if (seq.request.pin.id != 0) pin(seq, end);
    if (!seq.request.retention.empty() && end.finish != Finish::error) retain(seq);
    if (end.finish != Finish::error && seq.request.pool == Pool::none) growth_.answered(seq);
    mean_generated_ += (seq.n_generated() - mean_generated_) * (mean_generated_ == 0 ? 1 : kMeanStep);
    end.seq = remove(seq.id);
    ended.push_back(std::move(end));
  }
  if (drafting_ != nullptr) drafting_->end_step(plan_, step_ns);
}

}  // namespace quire
