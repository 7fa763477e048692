// What is guessed in a step: who has room for it, who gives it back, and what is left of it when it was verified.
#include <new>
#include <utility>

#include "engine/limits.h"
#include "engine/scheduler.h"

namespace quire {

// Guesses for those that stream, as far as there is room that nobody else needs: everyone that runs finds a token of
// the budget, and prompts half of what is left then; where others wait, a guess takes no block that they could have.
void Scheduler::grant_drafts() {
  const int n_others = n_running() - static_cast<int>(plan_.grants.size());
  int room = options_.step_tokens - plan_.n_tokens - n_others;
  if (n_others > 0 || !waiting_.empty()) room /= 2;
  room = affordable_guesses(static_cast<int>(most_drafted(options_, room)));
  if (room <= 0 || plan_.grants.empty()) return;
  for (const Grant& grant : plan_.grants) {
    if (grant.seq->tapped.plan != n_plans_ - 1) grant.seq->tapped = {};
  }
  const int n_spare = n_running() + (waiting_.empty() ? 0 : kStatesPerSequence);  // states
  const auto ahead = [this](Sequence& seq, int n) { return room_ahead(seq, n); };
  drafting_->propose(plan_.grants, room, ahead);
  for (Grant& grant : plan_.grants) {
    Sequence& seq = *grant.seq;
    const int n = cache_.add_guess_states(seq.kv, room_ahead(seq, static_cast<int>(seq.draft.size())), n_spare);
    seq.draft.resize(static_cast<size_t>(n));
    if (n > 0) plan_.set_drafted(grant, n);
    if (drafting_->writes_ahead() || cache_.keeps_states()) cache_.truncate(seq.kv, seq.n_computed + 1 + n);
  }
  for (Grant& grant : plan_.grants) grant_branches(grant);
}

// Those that there are blocks for; none where one that waits could come in with these in this step.
void Scheduler::grant_branches(Grant& grant) {
  Sequence& seq = *grant.seq;
  if (seq.branches.empty()) return;
  seq.branches.keep([&](Branch& branch) { return has_room(seq, branch); });
  plan_.set_branches(grant);
}

// Takes blocks for a branch, which leave one to everybody that runs. False: there are none, or what it goes on behind
// is not there any more.
bool Scheduler::has_room(const Sequence& seq, Branch& branch) {
  const bool one_may_come = !waiting_.empty() && n_running() < max_running();
  if (one_may_come || branch.n_shared >= std::ssize(seq.draft)) return false;
  const int begin = seq.n_computed + 1 + branch.n_shared, end = begin + static_cast<int>(branch.tokens.size());
  try {
    return cache_.branch(branch.kv, seq.kv, {seq.n_computed, begin, end, n_running()});
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// For how many of n guesses there are blocks behind the due token, which are taken; where others wait, of those that it
// holds.
int Scheduler::room_ahead(Sequence& seq, int n) {
  const int n_all = static_cast<int>(seq.kv.table.size()) * cache_.block_tokens() + seq.kv.n_dropped;
  const int n_held = n_all - seq.n_computed - 1;
  if (!waiting_.empty()) n = std::min(n, n_held);
  return n > 0 && cache_.grow(seq.kv, seq.n_computed + 1 + n) ? n : 0;
}

// They give way first. False: there was none.
bool Scheduler::take_back_branches() {
  bool any = false;
  for (Grant& grant : plan_.grants) {
    if (grant.seq->branches.empty()) continue;
    any = true;
    grant.seq->branches.clear();
    plan_.set_branches(grant);
  }
  return any;
}

// Nobody is preempted for a guess. False: there was none.
bool Scheduler::take_back_drafts() {
  if (plan_.n_drafted == 0) return false;
  for (Grant& grant : plan_.grants) {
    if (grant.n_drafted == 0) continue;
    plan_.set_drafted(grant, 0);
    grant.seq->draft.clear();
    cache_.settle_guess_states(grant.seq->kv, grant.seq->n_computed + 1, 0);
    cache_.truncate(grant.seq->kv, grant.seq->n_computed + 1);
  }
  return true;
}

// Which rows of the step are part of the sequence's past now. The grant's own begin at `first`, those of output at
// `out`.
void Scheduler::tap(const Grant& grant, const Taken& taken, int out, int first) const {
  Sequence& seq = *grant.seq;
  const int n_kept = grant.n_tokens - grant.n_drafted + taken.n_accepted;
  seq.tapped = {.row = out + taken.n_accepted, .first = first, .n = n_kept, .plan = n_plans_};
  if (taken.way == kDraft) return;
  const Branch& branch = seq.branches[taken.way];
  seq.tapped.branch = branch.first_row;
  seq.tapped.n_branch = taken.n_accepted - branch.n_shared;
  seq.tapped.row = branch.first_out + seq.tapped.n_branch - 1;
}

// Of the grant's guesses those that were taken came true; of the others nothing is left. Windows slide after that: what
// they leave behind cannot come back.
void Scheduler::settle(const Grant& grant, const Taken& taken) {
  Sequence& seq = *grant.seq;
  if (grant.n_drafted > 0) {
    drafting_->verified(grant, taken);
    if (taken.way != kDraft) KvCache::adopt(seq.kv, std::move(seq.branches[taken.way].kv));
    seq.draft.clear();
    seq.branches.clear();
    cache_.settle_guess_states(seq.kv, seq.n_computed - grant.n_drafted, taken.n_accepted);
    seq.n_computed -= grant.n_drafted - taken.n_accepted;
    cache_.truncate(seq.kv, seq.n_computed);
  }
  seq.account.n_ever_computed = std::max(seq.account.n_ever_computed, seq.n_computed);
}

}  // namespace quire
