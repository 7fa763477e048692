// Which of those that wait cannot have their first token by their deadlines, as far as can be told: its own prompt and
// those of its tenant that are due before, without what is known to be cached in memory, at the speed of full steps as
// measured. What runs, answers, and all that is others' are left out: whose turn it is between tenants changes with
// every step. So one is refused who would have been on time only where one before it is cancelled, where a tier brings
// blocks, or where steps turn out faster than measured.
#include "engine/scheduler.h"

namespace quire {

int64_t Scheduler::deadline_of(const Sequence& seq) {
  const int64_t after_ns = seq.request.deadline_ns;
  return seq.submitted_ns + (after_ns > 0 ? after_ns : kUsualDeadlineNs);
}

double Scheduler::prompt_token_ns() const {
  const int chunk = std::min(options_.step_tokens, options_.max_chunk);
  return step_cost_.predict_ns(StepShape::rows(0, chunk)) / chunk;
}

std::unique_ptr<Sequence> Scheduler::take_late(int64_t now_ns) {
  const auto has_one = [](const auto& seq) { return seq->request.deadline_ns > 0; };
  if (!policy_.wants_deadlines() || step_cost_.n_observed() == 0) return nullptr;
  if (std::ranges::none_of(waiting_, has_one)) return nullptr;
  look_up_hits();
  sort(waiting_, true);
  const double token_ns = prompt_token_ns();
  for (const auto& seq : waiting_) seq->tenant->n_due_before = 0;
  for (const auto& seq : waiting_) {
    int64_t& n_tokens = seq->tenant->n_due_before;
    n_tokens += std::max(1, seq->n_prompt - std::max(seq->n_hit, seq->account.n_ever_computed));
    const double ready_ns = token_ns * static_cast<double>(n_tokens);
    const bool begun = seq->admitted || !has_one(seq);
    if (!begun && static_cast<double>(now_ns) + ready_ns > static_cast<double>(deadline_of(*seq)))
      return remove(seq->id);
  }
  return nullptr;
}

}  // namespace quire
