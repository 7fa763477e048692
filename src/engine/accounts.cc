#include "engine/accounts.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

// Divides ns that a step of n rows took among its grants, in their order, rounded so that nothing is lost.
class Shares {
 public:
  Shares(int64_t ns, int64_t n) : whole_(n == 0 ? 0 : ns / n), rest_(n == 0 ? 0 : ns % n), n_(n) {}
  // Of the next n_rows.
  int64_t next(int64_t n_rows) {
    row_ += n_rows;
    const int64_t before = std::exchange(given_, whole_ * row_ + (rest_ == 0 ? 0 : rest_ * row_ / n_));
    return given_ - before;
  }

 private:
  int64_t whole_, rest_, n_;
  int64_t row_ = 0, given_ = 0;
};

}  // namespace

void Accounts::reused(Sequence& seq, int n) {
  seq.account.cost.n_reused += n;
  counters_.spent.n_reused += n;
  if (seq.preempted) return;
  seq.account.n_cached += n;
  counters_.n_cached_tokens += n;
}

void Accounts::dropped(Sequence& seq) {
  if (seq.account.n_dropped > 0) return;
  seq.account.n_dropped = seq.kv.n_dropped;
  ++counters_.n_bounded;
  counters_.n_dropped_tokens += seq.kv.n_dropped;
}

void Accounts::loaded(Sequence& seq, TierPlace from, int n) {
  counters_.n_loaded_tokens += n;
  if (seq.preempted) return;
  (from == TierPlace::disk ? seq.account.n_disk : seq.account.n_remote) += n;
}

void Accounts::wasted(Sequence& seq, int n) {
  seq.account.cost.n_wasted += n;
  counters_.spent.n_wasted += n;
}

void Accounts::computed(const Grant& grant) {
  if (grant.seq->sent_back == SentBack::for_blocks) counters_.n_recomputed_for_blocks += grant.n_recomputed;
  for (Cost* cost : {&grant.seq->account.cost, &counters_.spent}) {
    cost->computed[static_cast<size_t>(Cause::recomputed)] += grant.n_recomputed;
    cost->computed[static_cast<size_t>(Cause::draft)] += grant.n_drafted + grant.n_side;
    cost->computed[static_cast<size_t>(Cause::fresh)] += grant.n_tokens - grant.n_recomputed - grant.n_drafted;
  }
}

void Accounts::verified(const Grant& grant, int n_accepted) {
  for (Cost* cost : {&grant.seq->account.cost, &counters_.spent}) cost->n_accepted += n_accepted;
  ++counters_.n_drafts;
  Counters::ByProposer& by = counters_.drafted_by[static_cast<size_t>(grant.seq->draft_by)];
  ++by.n_drafts;
  by.n_drafted += grant.n_drafted + grant.n_side;
  by.n_accepted += n_accepted;
  const auto count = [](auto& at, int begin, int n) {
    for (int i = begin; i < std::min(begin + n, kMostDraft); ++i) ++at[static_cast<size_t>(i)];
  };
  count(counters_.n_drafted_at, 0, grant.n_drafted);
  for (int b = 0; grant.n_side > 0 && b < grant.seq->branches.size(); ++b) {
    const Branch& branch = grant.seq->branches[b];
    count(counters_.n_drafted_at, branch.n_shared, static_cast<int>(branch.tokens.size()));
  }
  count(counters_.n_accepted_at, 0, n_accepted);
}

void Accounts::stages(const Plan& plan, const StageTimes& ns) {
  for (size_t i = 0; i < ns.size(); ++i) {
    if (ns[i] == 0) continue;
    Shares shares(ns[i], plan.n_tokens);
    for (const Grant& grant : plan.grants) grant.seq->account.cost.stage_ns[i] += shares.next(grant.n_rows());
    if (!plan.grants.empty()) counters_.spent.stage_ns[i] += ns[i];
  }
}

void Accounts::step(const Plan& plan,
                    std::span<const std::unique_ptr<Sequence>> running,
                    int block_tokens,
                    int64_t step_ns) {
  Cost& spent = counters_.spent;
  counters_.n_rows += plan.n_tokens;
  counters_.busy_ns += step_ns;
  Shares shares(step_ns, plan.n_tokens);
  for (const Grant& grant : plan.grants) {
    Sequence& seq = *grant.seq;
    const int64_t part = shares.next(grant.n_rows());
    const bool decodes = grant.n_out > 0 && grant.n_tokens == 1 + grant.n_drafted && seq.n_generated() > 0;
    for (Cost* cost : {&seq.account.cost, &spent}) (decodes ? cost->decode_ns : cost->prefill_ns) += part;
  }
  for (const auto& seq : running) {
    const auto n_blocks = static_cast<int64_t>(seq->kv.table.size());
    for (Cost* cost : {&seq->account.cost, &spent}) cost->block_ns += n_blocks * step_ns;
    counters_.n_slot_steps += n_blocks * block_tokens;
    counters_.n_filled_slot_steps += seq->n_computed - seq->kv.n_dropped;
  }
}

}  // namespace quire
