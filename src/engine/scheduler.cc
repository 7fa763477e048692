#include "engine/scheduler.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <string>

namespace quire {
namespace {

constexpr int kLeastChunk = 16;      // of a prompt in every step, whatever it takes: else it might never end
constexpr int kLookUpBlocks = 1024;  // of waiting prompts in one step: deep queues cost no more
constexpr double kMeanStep = 1.0 / 16;
constexpr int64_t kHitPlans = 32;  // for so many steps a look-up counts

// Leading tokens that two requests of different salts may share.
int n_public(const Request& a, const Request& b) {
  const auto own = [](const Request& r) { return r.cache_salt == 0 ? std::numeric_limits<int>::max() : r.n_public; };
  return std::min(own(a), own(b));
}

// Of ns that a step of n rows took, the share of rows [row, row + n_rows), rounded so that nothing is lost.
int64_t share_of(int64_t ns, int64_t n, int64_t row, int64_t n_rows) {
  const auto until = [&](int64_t r) { return ns / n * r + ns % n * r / n; };
  return until(row + n_rows) - until(row);
}

}  // namespace

Scheduler::Scheduler(const EngineOptions& options, KvCache& cache, const Policy& policy, const CacheKey& key)
    : options_(options), cache_(cache), policy_(policy), key_(key) {}

void Scheduler::add(std::unique_ptr<Sequence> seq) {
  n_pending_waiting_ += static_cast<int64_t>(seq->tokens.size());
  waiting_.push_back(std::move(seq));
}

std::unique_ptr<Sequence> Scheduler::remove(SeqId id) {
  for (Seqs* seqs : {&running_, &waiting_}) {
    const auto at = std::find_if(seqs->begin(), seqs->end(), [id](const auto& seq) { return seq->id == id; });
    if (at == seqs->end()) continue;
    std::unique_ptr<Sequence> out = std::move(*at);
    seqs->erase(at);
    if (seqs == &waiting_) n_pending_waiting_ -= static_cast<int64_t>(out->tokens.size());
    cache_.release(out->kv);
    return out;
  }
  return nullptr;
}

Prefix Scheduler::prefix_of(const Sequence& seq) const {
  CacheKey key = key_;
  key.salt = seq.request.cache_salt;
  return {seq.tokens, key, {}, seq.request.n_public};
}

void Scheduler::sort(Seqs& seqs) {
  candidates_.clear();
  order_.clear();
  for (const auto& seq : seqs) {
    order_.push_back(static_cast<int>(candidates_.size()));
    candidates_.push_back({seq->id, seq->submitted_ns, seq->request.priority, seq->n_pending(), seq->n_prompt,
                           std::min(seq->n_hit, seq->n_prompt)});
  }
  policy_.order(candidates_, order_);
  if (std::is_sorted(order_.begin(), order_.end())) return;
  sorted_.clear();
  for (int i : order_) sorted_.push_back(std::move(seqs[static_cast<size_t>(i)]));
  std::swap(seqs, sorted_);
}

// What others wait for is as urgent as the first of them: a leader that stands behind goes on that one's place. A chain
// of leaders is no longer than all that run.
void Scheduler::lend_places() {
  for (size_t i = 0; i < running_.size(); ++i) {
    for (size_t n = running_.size(); n > 0 && running_[i]->leader != 0; --n) {
      const auto place = running_.begin() + static_cast<std::ptrdiff_t>(i);
      const auto leader =
          std::find_if(place, running_.end(), [&](const auto& other) { return other->id == running_[i]->leader; });
      if (leader == running_.end()) break;
      std::rotate(place, leader, leader + 1);
    }
  }
}

// In the order of the queue, so that who is about to be admitted is known best.
void Scheduler::look_up_hits() {
  int budget = kLookUpBlocks;
  for (const auto& seq : waiting_) {
    if (budget <= 0) return;
    if (seq->probed_plan > 0 && n_plans_ - seq->probed_plan < kHitPlans) continue;
    seq->n_hit = cache_.peek(prefix_of(*seq));
    seq->probed_plan = n_plans_;
    budget -= 1 + seq->n_hit / cache_.block_tokens();
  }
}

// How many of n rows the target of the time between tokens leaves room for.
int Scheduler::affordable(const Sequence& seq, int n) const {
  if (options_.itl_target_ms <= 0 || plan_.shape.n_decode == 0) return n;
  const int least = plan_.shape.n_prefill == 0 ? std::min(n, kLeastChunk) : 0;
  return std::max(least, step_cost_.fit(plan_.shape, seq.n_computed, n, options_.itl_target_ms * 1e6));
}

const Plan& Scheduler::plan(int64_t now_ns) {
  plan_.grants.clear();
  plan_.n_tokens = 0;
  plan_.n_out = 0;
  plan_.shape = {};
  ++n_plans_;
  planned_ns_ = now_ns;
  preempted_now_ = false;
  sort(running_);
  for (size_t i = 0; i < running_.size(); ++i) running_[i]->place = static_cast<int>(i);
  lend_places();
  grant_running(true);
  grant_running(false);
  if (!preempted_now_) admit(now_ns);
  return plan_;
}

void Scheduler::give(Sequence& seq, int n_tokens) {
  QR_DCHECK(cache_.exclusive(seq.kv, seq.n_computed, seq.n_computed + n_tokens), "a block has two writers");
  const bool wants_output = n_tokens == seq.n_pending();
  seq.moved_plan = n_plans_;
  plan_.grants.push_back({&seq, n_tokens, wants_output});
  plan_.n_tokens += n_tokens;
  plan_.shape += StepShape::rows(seq.n_computed, n_tokens);
  plan_.n_out += wants_output ? 1 : 0;
}

void Scheduler::grant_running(bool decoding) {
  for (size_t i = 0; i < running_.size();) {
    Sequence& seq = *running_[i];
    const int budget = options_.step_tokens - plan_.n_tokens;
    if (budget <= 0) return;
    const bool granted = seq.leader == 0 && seq.moved_plan == n_plans_;
    if (granted || (seq.n_pending() == 1) != decoding || waits_for_leader(seq)) {
      ++i;
      continue;
    }
    const int n = decoding ? 1 : affordable(seq, std::min({seq.n_pending(), budget, options_.max_chunk}));
    if (n == 0) return;
    if (cache_.grow(seq.kv, seq.n_computed + n)) {
      give(seq, n);
      ++i;
    } else {
      // From the beginning: what is preempted may have been somebody's leader, in front or behind.
      preempt(last());
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

void Scheduler::preempt(size_t i) {
  Sequence& victim = *running_[i];
  drop_grant(victim);
  index(victim);
  cache_.release(victim.kv);
  victim.n_computed = 0;
  victim.leader = 0;
  victim.n_copied = 0;
  victim.preempted = true;
  n_pending_waiting_ += static_cast<int64_t>(victim.tokens.size());
  waiting_.push_back(std::move(running_[i]));
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  ++n_preempted_;
  preempted_now_ = true;
}

void Scheduler::drop_grant(const Sequence& victim) {
  const auto at =
      std::find_if(plan_.grants.begin(), plan_.grants.end(), [&](const Grant& g) { return g.seq == &victim; });
  if (at == plan_.grants.end()) return;
  plan_.n_tokens -= at->n_tokens;
  plan_.shape -= StepShape::rows(victim.n_computed, at->n_tokens);
  plan_.n_out -= at->wants_output ? 1 : 0;
  plan_.grants.erase(at);
}

void Scheduler::admit(int64_t now_ns) {
  if (waiting_.empty() || n_running() >= max_running() || plan_.n_tokens >= options_.step_tokens) return;
  if (policy_.wants_hits()) look_up_hits();
  sort(waiting_);
  size_t n_admitted = 0;
  for (; n_admitted < waiting_.size(); ++n_admitted) {
    const int budget = options_.step_tokens - plan_.n_tokens;
    if (budget <= 0 || n_running() >= max_running()) break;
    Sequence& seq = *waiting_[n_admitted];
    if (!admit_one(seq, budget)) break;
    if (!seq.admitted) {
      seq.admitted = true;
      // All that it may come to, so that no step allocates.
      seq.tokens.reserve(seq.tokens.size() + static_cast<size_t>(seq.request.max_tokens));
      seq.started_ns = now_ns;
      seq.n_hit = seq.n_cached;
    }
    n_pending_waiting_ -= static_cast<int64_t>(seq.tokens.size());
    running_.push_back(std::move(waiting_[n_admitted]));
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n_admitted));
}

// Takes what is cached and grants the next of it, or lets it wait for a leader; false, with nothing changed, where
// there is no room yet.
bool Scheduler::admit_one(Sequence& seq, int budget) {
  const int block = cache_.block_tokens();
  const int64_t most = int64_t{seq.n_prompt} + seq.request.max_tokens;
  seq.kv.table.reserve(static_cast<size_t>(most / block + 1));
  const int n_known = seq.may_match() ? cache_.match(seq.kv, prefix_of(seq)) : 0;
  // Beside others: all that is pending and the next token must fit, and a block for each that runs, else it would be
  // preempted at once. Alone: what submit() found to fit.
  const int n_all = static_cast<int>(seq.tokens.size()) + (running_.empty() ? 0 : 1);
  seq.n_computed = n_known;
  const int n_step = std::min(options_.step_tokens, options_.max_chunk);
  const bool fits = cache_.has_room(seq.kv, {n_all, n_step, n_running()});
  if (fits) find_leader(seq);
  const int n = seq.leader != 0 ? 0 : affordable(seq, std::min({seq.n_pending(), budget, options_.max_chunk}));
  if (!fits || (seq.leader == 0 && (n == 0 || !cache_.grow(seq.kv, n_known + n)))) {
    cache_.release(seq.kv);
    seq.n_computed = 0;
    return false;
  }
  seq.n_computed = 0;
  take_known(seq, n_known);
  if (n > 0) give(seq, n);
  seq.moved_plan = n_plans_;
  return true;
}

// Its first n_known tokens are in its table now, though it did not compute them.
void Scheduler::take_known(Sequence& seq, int n_known) {
  const int n = n_known - seq.n_computed;
  seq.n_computed = n_known;
  seq.cost.n_reused += n;
  spent_.n_reused += n;
  if (seq.preempted) return;
  seq.n_cached += n;
  n_cached_tokens_ += n;
}

// Among those that run and move in this step, the one that will have the longest common past beyond what `seq` has:
// whole blocks, or all but the last token; whole blocks of what is public where the salts differ. They compare from
// there on: below it equal pasts are equal blocks.
void Scheduler::find_leader(Sequence& seq) {
  seq.leader = 0;
  if (!options_.prefix_cache || !seq.may_match()) return;
  const int block = cache_.block_tokens();
  const int n_have = seq.n_computed;
  for (const auto& other : running_) {
    if (other.get() == &seq || other->moved_plan != n_plans_) continue;
    const auto last = static_cast<size_t>(n_have / block) - 1;
    const bool same_past =
        n_have == 0 || (other->kv.table.size() > last && other->kv.table[last][0].id() == seq.kv.table[last][0].id());
    if (!same_past || static_cast<int>(other->tokens.size()) < n_have) continue;
    const auto differ = std::mismatch(seq.tokens.begin() + n_have, seq.tokens.end() - 1, other->tokens.begin() + n_have,
                                      other->tokens.end());
    const auto n_common = static_cast<int>(differ.first - seq.tokens.begin());
    const bool all = differ.first == seq.tokens.end() - 1;
    int n_shared = all ? n_common : n_common / block * block;
    if (other->request.cache_salt != seq.request.cache_salt) {
      n_shared = std::min(n_shared, n_public(seq.request, other->request)) / block * block;
    }
    if (n_shared <= std::max({n_have, other->n_computed, seq.leader == 0 ? 0 : seq.n_shared})) continue;
    seq.leader = other->id;
    seq.n_shared = n_shared;
  }
}

// The end of a common past that is no whole block: a copy, for both will write behind it. Where there is no room the
// tokens are computed.
void Scheduler::take_from_leader(Sequence& seq, const Sequence& leader) {
  seq.leader = 0;
  const int block = cache_.block_tokens();
  if (seq.n_shared / block > seq.n_computed / block) return;  // not even the whole blocks were found
  const auto next = static_cast<size_t>(seq.n_computed / block);
  const bool same_past = next == 0 || leader.kv.table[next - 1][0].id() == seq.kv.table[next - 1][0].id();
  if (!same_past || !cache_.copy_next_block(seq.kv, leader.kv)) return;
  seq.n_copied = seq.n_shared - seq.n_computed;
  take_known(seq, seq.n_shared);
}

// Whether `seq` still waits. When its leader has what both need, or is gone, or does not move in this step, what is
// known is taken and perhaps another leader found. Leaders come before those who wait for them, so the first in the
// policy's order waits in no step but for one that moves in it.
bool Scheduler::waits_for_leader(Sequence& seq) {
  if (seq.leader == 0) return false;
  seq.moved_plan = 0;
  const auto leader =
      std::find_if(running_.begin(), running_.end(), [&](const auto& other) { return other->id == seq.leader; });
  const bool moves = leader != running_.end() && (*leader)->moved_plan == n_plans_;
  if (!moves || (*leader)->n_computed >= seq.n_shared) {
    take_known(seq, cache_.extend(seq.kv, prefix_of(seq)));
    const bool has_more = leader != running_.end() && (*leader)->n_computed >= seq.n_shared;
    if (has_more && seq.n_shared > seq.n_computed) {
      take_from_leader(seq, **leader);
    } else {
      find_leader(seq);
    }
  }
  if (seq.leader != 0) seq.moved_plan = n_plans_;
  return seq.leader != 0;
}

void Scheduler::advance(const Grant& grant) {
  Sequence& seq = *grant.seq;
  const int recomputed = std::clamp(seq.n_ever_computed - seq.n_computed, 0, grant.n_tokens);
  for (Cost* cost : {&seq.cost, &spent_}) {
    cost->computed[static_cast<size_t>(Cause::recomputed)] += recomputed;
    cost->computed[static_cast<size_t>(Cause::fresh)] += grant.n_tokens - recomputed;
  }
  seq.n_computed += grant.n_tokens;
  seq.n_ever_computed = std::max(seq.n_ever_computed, seq.n_computed);
}

void Scheduler::index(Sequence& seq) {
  const int n_before = seq.kv.n_indexed;
  int n_known = cache_.index(seq.kv, prefix_of(seq), seq.n_computed);
  if (n_known > 0) n_known -= seq.n_copied;  // not computed by it; the first that was not indexed is the one copied
  if (seq.kv.n_indexed > n_before) seq.n_copied = 0;
  seq.cost.n_wasted += n_known;
  spent_.n_wasted += n_known;
}

void Scheduler::charge_stages(const StageTimes& ns) {
  int64_t row = 0;
  for (const Grant& grant : plan_.grants) {
    for (size_t i = 0; i < ns.size(); ++i) {
      const int64_t part = share_of(ns[i], plan_.n_tokens, row, grant.n_tokens);
      grant.seq->cost.stage_ns[i] += part;
      spent_.stage_ns[i] += part;
    }
    row += grant.n_tokens;
  }
}

// The step's duration in proportion to rows; blocks to whoever holds them.
void Scheduler::charge(int64_t step_ns) {
  n_rows_ += plan_.n_tokens;
  busy_ns_ += step_ns;
  int64_t row = 0;
  for (const Grant& grant : plan_.grants) {
    Sequence& seq = *grant.seq;
    const int64_t part = share_of(step_ns, plan_.n_tokens, row, grant.n_tokens);
    row += grant.n_tokens;
    const bool decodes = grant.n_tokens == 1 && grant.wants_output && seq.n_generated() > 0;
    (decodes ? seq.cost.decode_ns : seq.cost.prefill_ns) += part;
  }
  n_filled_slot_steps_ += plan_.n_tokens;
  for (const auto& seq : running_) {
    const auto n_blocks = static_cast<int64_t>(seq->kv.table.size());
    seq->cost.block_ns += n_blocks * step_ns;
    spent_.block_ns += n_blocks * step_ns;
    n_slot_steps_ += n_blocks * cache_.block_tokens();
    n_filled_slot_steps_ += seq->n_computed;
  }
}

int64_t Scheduler::queue_ns() const {
  if (step_cost_.n_observed() == 0) return 0;
  const int chunk = std::min(options_.step_tokens, options_.max_chunk), n_seqs = max_running();
  const double prefill_ns = step_cost_.predict_ns(StepShape::rows(0, chunk)) / chunk;
  StepShape decode;
  decode.n_decode = n_seqs;
  const double decode_ns = step_cost_.predict_ns(decode) / n_seqs;
  return static_cast<int64_t>(prefill_ns * static_cast<double>(n_pending_waiting_) +
                              decode_ns * mean_generated_ * static_cast<double>(waiting_.size()));
}

// Whether the end rule ends it. What the request's own rules throw is its error, and the token is not part of the
// answer.
bool Scheduler::accept(Sequence& seq, const Sampled& sampled, Ended& end) {
  try {
    for (const auto& rule : seq.request.rules) {
      rule->observe(sampled);
      rule->accept(sampled.token);
    }
    return seq.request.end != nullptr && seq.request.end->accept(sampled.token);
  } catch (const std::exception& error) {
    end.finish = Finish::error;
    end.error = std::string("a rule of the request failed: ") + error.what();
    return true;
  }
}

bool Scheduler::take_token(
    Sequence& seq, Sampled& sampled, int64_t now_ns, const std::function<void(Sequence&, Sampled&)>& emit, Ended& end) {
  if (!seq.fault.empty()) {
    end.finish = Finish::error;
    end.error = "a rule of the request failed: " + seq.fault;
    return true;
  }
  if (!sampled.ok) {
    end.finish = Finish::error;
    end.error = "no token could be sampled at position " + std::to_string(seq.tokens.size()) +
                ": the model's logits are not finite, or everything is forbidden";
    return true;
  }
  const Request& request = seq.request;
  if (seq.first_token_ns < 0) seq.first_token_ns = now_ns;
  if (std::find(request.stop_ids.begin(), request.stop_ids.end(), sampled.token) != request.stop_ids.end()) {
    end.finish = Finish::stop;
    return true;
  }
  const bool stopped = accept(seq, sampled, end);
  if (end.finish == Finish::error) return true;
  seq.tokens.push_back(sampled.token);
  emit(seq, sampled);
  if (stopped) {
    end.finish = Finish::stop;
    return true;
  }
  end.finish = Finish::length;
  return seq.n_generated() >= request.max_tokens || static_cast<int>(seq.tokens.size()) >= options_.n_ctx;
}

void Scheduler::fail_step(const std::string& error, std::vector<Ended>& ended) {
  for (const Grant& grant : plan_.grants) ended.push_back({remove(grant.seq->id), Finish::error, error});
}

void Scheduler::commit(std::span<Sampled> sampled,
                       int64_t now_ns,
                       const std::function<void(Sequence&, Sampled&)>& emit,
                       std::vector<Ended>& ended) {
  const int64_t step_ns = std::max<int64_t>(now_ns - planned_ns_, 0);
  step_cost_.observe(plan_.shape, step_ns);
  charge(step_ns);
  size_t row = 0;
  for (const Grant& grant : plan_.grants) {
    Sequence& seq = *grant.seq;
    advance(grant);
    Ended end;
    const bool over = grant.wants_output && take_token(seq, sampled[row++], now_ns, emit, end);
    // What led to logits that are not finite is not for others to find.
    if (!over || end.finish != Finish::error) index(seq);
    cache_.slide(seq.kv, seq.n_computed);
    if (!over) continue;
    mean_generated_ += (seq.n_generated() - mean_generated_) * (mean_generated_ == 0 ? 1 : kMeanStep);
    end.seq = remove(seq.id);
    ended.push_back(std::move(end));
  }
}

}  // namespace quire
