// How streams take turns where steps have a target (EngineOptions::step_target_ms): as many have their row as a step
// has time for, by what steps took so far. Those that run go on to hold what they hold; who pauses has its row in a
// later step, and its answer is the same. The first in the policy's order never pauses, so it moves in every step. Of
// the others the one of each tenant that has paused for longest comes before the second of any, by weight, and between
// tenants the one whose last turn was longest ago. So a tenant with one answer streams in every step that has a row for
// each tenant and one more, however many answers another has; and nobody pauses for longer than tenants that stream ×
// its own tenant's streams. Who comes goes to the end, so a flow of short answers makes nobody wait.
#include <algorithm>
#include <tuple>

#include "engine/scheduler.h"

namespace quire {
namespace {

constexpr int kLeastStreams = 2;  // in a step, whatever it takes: one beside the first

}  // namespace

// Those that have one token to compute, in the order of their turns.
void Scheduler::sort_streams() {
  streams_.clear();
  for (const auto& seq : running_) {
    seq->pauses = false;
    const bool streams = seq->n_pending() == 1 && seq->load == nullptr && seq->follows.leader == 0;
    if (!streams) continue;
    if (seq->stream_turn == 0) seq->stream_turn = ++n_stream_turns_;
    streams_.push_back({seq.get(), 0});
  }
  const Sequence* const first = running_.empty() ? nullptr : running_.front().get();
  const auto within = [first](const StreamTurn& s) {
    return std::tuple(s.seq->tenant->id, s.seq != first, s.seq->stream_turn);
  };
  std::ranges::sort(streams_, {}, within);
  for (size_t i = 1; i < streams_.size(); ++i) {
    const StreamTurn& before = streams_[i - 1];
    const bool counts = before.seq->tenant == streams_[i].seq->tenant && before.seq != first;
    streams_[i].n_before = counts ? before.n_before + 1 : 0;
  }
  const auto among = [first](const StreamTurn& s) {
    const Tenant& tenant = *s.seq->tenant;
    return std::tuple(s.seq != first, s.n_before * kMostWeight / tenant.weight,
                      std::max(tenant.stream_turn, s.seq->stream_turn));
  };
  std::ranges::sort(streams_, {}, among);
}

// Where prompts are to be computed, theirs is half of the time.
void Scheduler::choose_streams() {
  if (options_.step_target_ms <= 0) return;
  sort_streams();
  const bool may_admit = !waiting_.empty() && n_running() < max_running();
  const bool prompts = may_admit || streams_.size() < running_.size();
  const double limit_ns = options_.step_target_ms * (prompts ? 0.5e6 : 1e6) - step_cost_.spread_ns();
  StepShape shape;
  int n = 0;
  for (const StreamTurn& turn : streams_) {
    shape += StepShape::rows(turn.seq->n_computed, 1);
    turn.seq->pauses = ++n > kLeastStreams && step_cost_.predict_ns(shape) > limit_ns;
    if (turn.seq->pauses) continue;
    turn.seq->stream_turn = ++n_stream_turns_;
    if (turn.seq != running_.front().get()) turn.seq->tenant->stream_turn = n_stream_turns_;
  }
}

// What no step with streams is to pass, in ns; 0: no target.
double Scheduler::most_step_ns() const {
  const double itl = options_.itl_target_ms, step = options_.step_target_ms;
  return 1e6 * (itl <= 0 ? step : step <= 0 ? itl : std::min(itl, step));
}

// Of n guesses those that a step has time for.
int Scheduler::affordable_guesses(int n) const {
  if (options_.step_target_ms <= 0) return n;
  return step_cost_.fit_streams(plan_.shape, n, options_.step_target_ms * 1e6);
}

}  // namespace quire
