// Which of those that wait cannot have their first token by their deadlines. The estimate is a lower bound on the time
// that it takes, so that nobody is refused who might be on time: its own prompt and those that wait before it, without
// what is known to be cached, at the speed of full steps. What runs, and answers, are left out of it.
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
  double ready_ns = 0;
  for (const auto& seq : waiting_) {
    ready_ns += token_ns * std::max(1, seq->n_prompt - std::max(seq->n_hit, seq->account.n_ever_computed));
    const bool begun = seq->admitted || !has_one(seq);
    if (!begun && static_cast<double>(now_ns) + ready_ns > static_cast<double>(deadline_of(*seq)))
      return remove(seq->id);
  }
  return nullptr;
}

}  // namespace quire
