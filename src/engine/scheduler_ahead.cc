// Steps that overlap: while step N runs, step N + 1 is planned, of rows whose ids step N gives. The device knows them
// before the host does. What the host alone can say makes a step wait: who comes in, what a rule allows, what is drawn.
// That a sequence ends it does not wait for: the row behind the end is dropped, and counted. Nobody's bits depend on
// it, as they do not depend on who runs beside whom.
#include <algorithm>

#include "engine/scheduler.h"
#include "ops/pick.h"
#include "sample/sampling_params.h"

namespace quire {
namespace {

// Its next token is drawn from the logits as they are, whatever the tokens before it, and by filters that a device has.
bool is_plain(const Request& request) {
  const SamplingParams& sampling = request.sampling;
  return can_pick(sample_params(sampling, 0, nullptr)) && sampling.logit_bias.empty() && request.rules.empty() &&
         request.pool == Pool::none && sampling.n_prompt_logprobs < 0;
}

}  // namespace

// It ends with its next token, whichever that is.
bool Scheduler::is_last(const Sequence& seq) const {
  return seq.n_generated() + 1 >= seq.request.max_tokens || static_cast<int>(seq.tokens.size()) + 1 >= options_.n_ctx;
}

bool Scheduler::may_run_ahead() const {
  const auto n_loading = std::ranges::count_if(running_, [](const auto& seq) { return seq->load != nullptr; });
  const bool all_move = std::ssize(plan_.grants) == n_running() - n_loading, some_wait = !waiting_.empty();
  if (!all_move || (some_wait && n_running() < max_running())) return false;
  if (some_wait && tenants_.n_here() > 1) return false;  // plan() may send somebody back for another tenant's turn
  const auto may = [&](const Grant& grant) {
    const Sequence& seq = *grant.seq;
    const bool drops = seq.budget.bounds() && seq.kv.n_dropped == 0;  // behind this step, by what its rows vote
    return grant.n_out == 1 && is_plain(seq.request) && !drops && !(some_wait && is_last(seq));
  };
  return std::ranges::all_of(plan_.grants, may) &&
         !std::ranges::all_of(plan_.grants, [&](const Grant& grant) { return is_last(*grant.seq); });
}

const Plan* Scheduler::plan_ahead() {
  ahead_.clear();
  for (const Grant& before : plan_.grants) {
    Sequence& seq = *before.seq;
    if (is_last(seq)) continue;
    if (!cache_.grow(seq.kv, seq.n_computed + 1, n_running() - 1)) {
      ahead_.clear();
      return nullptr;
    }
    QR_DCHECK(cache_.exclusive(seq.kv, seq.n_computed, seq.n_computed + 1), "a block has two writers");
    ahead_.add({.seq = &seq, .n_tokens = 1, .n_out = 1, .ids_from = before.first_out});
  }
  ahead_.place();
  return &ahead_;
}

// Whose load is over is in the plan behind this one.
const Plan& Scheduler::take_ahead(int64_t now_ns) {
  if (loads_ != nullptr) loads_->poll(running_, now_ns, false);
  std::swap(plan_, ahead_);
  ahead_.clear();
  planned_ns_ = committed_ns_;
  return plan_;
}

}  // namespace quire
