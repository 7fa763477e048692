// Who pays: every row, block and nanosecond of a step is charged to the sequence that took it and counted in the
// engine's totals in the same line, so that the two agree (Snapshot::check). docs/engine.md has the rules. Engine
// thread only.
#pragma once
#include <memory>
#include <span>

#include "engine/counters.h"
#include "engine/plan.h"

namespace quire {

class Accounts {
 public:
  // n tokens are in its table that it did not compute now.
  void reused(Sequence& seq, int n);
  // Of the reused, n were brought from disk for it.
  void loaded(Sequence& seq, TierPlace from, int n);
  // It has dropped blocks. Counted once, however often it comes to that again.
  void dropped(Sequence& seq);
  // n tokens that it computed were given up for another's.
  void wasted(Sequence& seq, int n);
  // The grant's rows were computed, each for the cause that the plan knows.
  void computed(const Grant& grant);
  // n_accepted of the grant's guesses came true, one behind the other.
  void verified(const Grant& grant, int n_accepted);
  // What the step's parts took, divided by rows.
  void stages(const Plan& plan, const StageTimes& ns);
  // The step's duration by rows; blocks of block_tokens to whoever holds them. When everyone is as far as the step got.
  void step(const Plan& plan, std::span<const std::unique_ptr<Sequence>> running, int block_tokens, int64_t step_ns);

  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

 private:
  Counters counters_;
};

}  // namespace quire
