// The bound on what is computed again for want of blocks (engine/growth.h), held against snapshots: who comes in, what
// is lost, and that nothing is lost where all find room for the most that they may ask for.
#pragma once
#include <map>
#include <set>
#include <string>

#include "tests/sim/stream.h"

namespace quire::sim {

class Recomputed {
 public:
  using Live = std::map<SeqId, const Stream*>;
  Recomputed(const Knobs& knobs, Failure& failure) : knobs_(knobs), failure_(failure) {}

  void before_step(const Snapshot& before, const Live& live);
  void after_step(const Snapshot& after, const Live& live);
  // Steps in which somebody came in though nothing more might be lost.
  int64_t n_strict() const { return n_strict_; }

 private:
  // Whether all that run find blocks for the most that they may ask for, as they stand.
  bool is_safe(const Snapshot& now, const Live& live) const;

  const Knobs& knobs_;
  Failure& failure_;
  std::set<SeqId> ran_;
  bool was_safe_ = false, alone_ = false;  // one tenant
  int64_t credit_ = 0, n_out_of_blocks_ = 0, n_cancelled_ = 0, n_strict_ = 0;
};

}  // namespace quire::sim
