// How tenants take turns: one that waits goes before those of other tenants that run behind it, in the policy's order
// and by their turns. Both must say so, and a turn moves forward only when another of its tenant ends: so who was sent
// back for another never sends that one back in turn, and there are at most as many such preemptions as arrivals and
// ends for each place. Within a tenant nothing of this happens; where there is one tenant the scheduler is without it.
#include <algorithm>
#include <utility>

#include "engine/scheduler.h"

namespace quire {

void Scheduler::enter(Sequence& seq) {
  seq.tenant = &tenants_.of(seq.request.tenant);
  seq.n_ahead = seq.tenant->n_here;
  seq.ahead_plan = n_plans_;
  tenants_.enter(*seq.tenant, seq.request.weight);
  Tenants::waits(*seq.tenant);
}

// Of each tenant what is left of its prompts, without what is known to be cached.
void Scheduler::count_pending() {
  if (tenants_.n_here() < 2) return;
  look_up_hits();
  for (Seqs* seqs : {&running_, &waiting_}) {
    for (const auto& seq : *seqs) seq->tenant->n_pending = 0;
  }
  for (Seqs* seqs : {&running_, &waiting_}) {
    for (const auto& seq : *seqs) {
      const int n_had = std::max({seq->n_computed, seq->account.n_ever_computed, seq->n_hit});
      seq->tenant->n_pending += std::max(0, seq->n_prompt - n_had);
    }
  }
}

void Scheduler::leave(Sequence& seq) {
  tenants_.leave(*std::exchange(seq.tenant, nullptr));
  for (Seqs* seqs : {&running_, &waiting_}) {
    for (const auto& other : *seqs) {
      if (other->request.tenant != seq.request.tenant || other->id < seq.id) continue;
      --other->n_ahead;
      other->ahead_plan = n_plans_;
    }
  }
}

// Whether the policy puts `waiting` first.
bool Scheduler::goes_first(const Candidate& waiting, const Candidate& running) {
  candidates_ = {running, waiting};
  order_ = {0, 1};
  policy_.order(candidates_, order_);
  return order_.front() == 1;
}

// As they would stand if both ran as well: by that it is decided who gives way when blocks run out, and two orders that
// differ would have each send the other back in turn.
bool Scheduler::passes(const Sequence& waiting, const Sequence& running) {
  if (waiting.tenant == running.tenant) return false;
  // Once in its life: an allowance goes by what is cached, which both change, so two could send each other back for
  // ever.
  const bool by_allowance =
      policy_.wants_allowances() && waiting.tenant->within && !running.tenant->within && !running.gave_way;
  if (!by_allowance && turn(waiting) > turn(running)) return false;
  if (!goes_first(candidate(waiting, false), candidate(running, false))) return false;
  Candidate served = candidate(running, true);
  // Of two that are not within their allowances, the one that waits must have been served less even with its prompt:
  // floods do not send each other back for little.
  if (options_.allowance > 0 && !waiting.tenant->within && !running.tenant->within)
    served.served -= kServedUnit * kPromptCharge * waiting.n_pending() / waiting.tenant->weight;
  return goes_first(candidate(waiting, true), served);
}

// Whether it may, once all that it passes have given back what they hold. Blocks that several hold count for each, so
// this may be wrong, and then some are sent back for nothing.
bool Scheduler::could_fit(const Sequence& first) {
  int64_t n = cache_.n_free_blocks() + cache_.n_cached_blocks();
  int n_stay = 0;
  for (const auto& other : running_) {
    if (passes(first, *other))
      n += static_cast<int64_t>(other->kv.table.size());
    else
      ++n_stay;
  }
  const int block = cache_.block_tokens();
  const int n_shared = first.n_virtual / block * block;
  const int64_t n_tokens = static_cast<int64_t>(first.tokens.size()) - n_shared + (n_stay > 0 ? 1 : 0);
  return n_stay < max_running() && (n_tokens + block - 1) / block + first.budget.n_kept() + n_stay <= n;
}

// As admit_one will find it.
bool Scheduler::fits(Sequence& first) {
  if (n_running() >= max_running()) return false;
  if (!reserve_table(first)) return true;  // nobody makes way for it: it ends
  pasts_.begin(first);
  const bool out = !shortage(first);
  pasts_.give_back(first);
  return out;
}

// For the first that waits: sends back from the end whom it passes, until it has a place and room. What they have
// computed goes to the tree, so they resume as hits.
void Scheduler::make_way() {
  if (tenants_.n_here() < 2 || waiting_.empty() || running_.empty()) return;
  sort_waiting();
  Sequence& first = *waiting_.front();
  if (!passes(first, *running_[last()]) || !could_fit(first)) return;
  way_made_ = first.id;
  while (!running_.empty() && !fits(first)) {
    const size_t victim = last();
    if (!passes(first, *running_[victim])) break;
    preempt(victim, SentBack::for_turn);
  }
  preempted_now_ = false;  // blocks did not run out: it is admitted in this step
}

// Before running_[i] and all behind it, one of which may have lent it its place, have their prompts computed.
void Scheduler::admit_before(size_t i) {
  if (tenants_.n_here() < 2 || waiting_.empty()) return;
  const auto first = std::min_element(running_.begin() + static_cast<std::ptrdiff_t>(i), running_.end(),
                                      [](const auto& a, const auto& b) { return a->place < b->place; });
  admit(first->get());
}

}  // namespace quire
