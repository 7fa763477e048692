#include "engine/scheduler.h"

#include <algorithm>

namespace quire {
namespace {

constexpr int kLeastChunk = 16;      // of a prompt in every step, whatever it takes: else it might never end
constexpr int kLookUpBlocks = 1024;  // of waiting prompts in one step: deep queues cost no more
constexpr int64_t kHitPlans = 32;    // for so many steps a look-up counts

}  // namespace

Scheduler::Scheduler(const EngineOptions& options, KvCache& cache, const Policy& policy, const CacheKey& key)
    : options_(options), cache_(cache), policy_(policy), key_(key) {}

void Scheduler::add(std::unique_ptr<Sequence> seq) { waiting_.push_back(std::move(seq)); }

std::unique_ptr<Sequence> Scheduler::remove(SeqId id) {
  for (Seqs* seqs : {&running_, &waiting_}) {
    const auto at = std::find_if(seqs->begin(), seqs->end(), [id](const auto& seq) { return seq->id == id; });
    if (at == seqs->end()) continue;
    std::unique_ptr<Sequence> out = std::move(*at);
    seqs->erase(at);
    cache_.release(out->kv);
    return out;
  }
  return nullptr;
}

Prefix Scheduler::prefix_of(const Sequence& seq) const {
  CacheKey key = key_;
  key.salt = seq.request.cache_salt;
  return {seq.tokens, key, {}};
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
  grant_running(true);
  grant_running(false);
  if (!preempted_now_) admit(now_ns);
  return plan_;
}

void Scheduler::give(Sequence& seq, int n_tokens) {
  QR_DCHECK(cache_.exclusive(seq.kv, seq.n_computed, seq.n_computed + n_tokens), "a block has two writers");
  const bool wants_output = n_tokens == seq.n_pending();
  plan_.grants.push_back({&seq, n_tokens, wants_output});
  plan_.n_tokens += n_tokens;
  plan_.shape += StepShape::rows(seq.n_computed, n_tokens);
  plan_.n_out += wants_output ? 1 : 0;
}

void Scheduler::grant_running(bool decoding) {
  // By index, looked up anew each turn: preemption takes sequences out behind the current one.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& seq = *running_[i];
    const int budget = options_.step_tokens - plan_.n_tokens;
    if (budget <= 0) return;
    if ((seq.n_pending() == 1) != decoding) continue;
    const int n = decoding ? 1 : affordable(seq, std::min({seq.n_pending(), budget, options_.max_chunk}));
    if (n == 0) return;
    if (make_room(seq, seq.n_computed + n)) give(seq, n);
  }
}

bool Scheduler::make_room(Sequence& seq, int n_tokens) {
  while (!cache_.grow(seq.kv, n_tokens)) {
    Sequence& victim = *running_.back();
    const bool itself = &victim == &seq;
    preempt(victim);
    if (itself) return false;
  }
  return true;
}

void Scheduler::preempt(Sequence& victim) {
  drop_grant(victim);
  cache_.index(victim.kv, prefix_of(victim), victim.n_computed);
  cache_.release(victim.kv);
  victim.n_computed = 0;
  waiting_.push_back(std::move(running_.back()));
  running_.pop_back();
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
    const int n_cached = cache_.match(seq.kv, prefix_of(seq));
    // Beside others: all that is pending and the next token must fit, and a block for each that runs, else it would be
    // preempted at once. Alone: what submit() found to fit.
    const int n_all = static_cast<int>(seq.tokens.size()) + (running_.empty() ? 0 : 1);
    const int wanted =
        (n_all + cache_.block_tokens() - 1) / cache_.block_tokens() - static_cast<int>(seq.kv.table.size());
    seq.n_computed = n_cached;
    const int n = affordable(seq, std::min({seq.n_pending(), budget, options_.max_chunk}));
    if (n == 0 || wanted + n_running() > cache_.n_free_blocks() + cache_.n_cached_blocks() ||
        !cache_.grow(seq.kv, n_cached + n)) {
      cache_.release(seq.kv);
      seq.n_computed = 0;
      break;
    }
    if (!seq.admitted) {
      seq.admitted = true;
      seq.started_ns = now_ns;
      seq.n_cached = seq.n_hit = n_cached;
      n_cached_tokens_ += n_cached;
    }
    give(seq, n);
    running_.push_back(std::move(waiting_[n_admitted]));
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n_admitted));
}

void Scheduler::advance(const Grant& grant) {
  Sequence& seq = *grant.seq;
  const int recomputed = std::clamp(seq.n_ever_computed - seq.n_computed, 0, grant.n_tokens);
  computed_[static_cast<size_t>(Cause::recomputed)] += recomputed;
  computed_[static_cast<size_t>(Cause::fresh)] += grant.n_tokens - recomputed;
  seq.n_computed += grant.n_tokens;
  seq.n_ever_computed = std::max(seq.n_ever_computed, seq.n_computed);
}

bool Scheduler::take_token(
    Sequence& seq, Sampled& sampled, int64_t now_ns, const std::function<void(Sequence&, Sampled&)>& emit, Ended& end) {
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
  seq.tokens.push_back(sampled.token);
  for (const auto& rule : request.rules) rule->accept(sampled.token);
  const bool stopped = request.end != nullptr && request.end->accept(sampled.token);
  emit(seq, sampled);
  if (stopped) {
    end.finish = Finish::stop;
    return true;
  }
  end.finish = Finish::length;
  return seq.n_generated() >= request.max_tokens || static_cast<int>(seq.tokens.size()) >= options_.n_ctx;
}

void Scheduler::commit(std::span<Sampled> sampled,
                       int64_t now_ns,
                       const std::function<void(Sequence&, Sampled&)>& emit,
                       std::vector<Ended>& ended) {
  step_cost_.observe(plan_.shape, now_ns - planned_ns_);
  size_t row = 0;
  for (const Grant& grant : plan_.grants) {
    Sequence& seq = *grant.seq;
    advance(grant);
    Ended end;
    const bool over = grant.wants_output && take_token(seq, sampled[row++], now_ns, emit, end);
    // What led to logits that are not finite is not for others to find.
    if (!over || end.finish != Finish::error) cache_.index(seq.kv, prefix_of(seq), seq.n_computed);
    if (!over) continue;
    end.seq = remove(seq.id);
    ended.push_back(std::move(end));
  }
}

}  // namespace quire
