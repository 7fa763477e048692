// What tenants were served, counted beside the engine, and the bound on it: under the policy "vtc" two tenants that
// both have something waiting are served alike, in proportion to their weights, but for what the sequences of one may
// come to that run at a time, and the allowance (docs/engine.md, "By what was served"). Told by Books of each step.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/stream.h"

namespace quire::sim {

class Service {
 public:
  // Checks where the script promises the bound: under "vtc", without requests that end by a fault.
  Service(const Script& script, Failure& failure);

  void submitted(const Stream& stream, int n_prompt) { progress_[stream.seq].n_prompt = n_prompt; }
  // A step in which `granted` rows from `start` on were computed for the stream.
  void computed(const Stream& stream, int start, int granted);
  // It has n_computed tokens now, computed or found.
  void has(const Stream& stream, int n_computed);
  // After a step: all that were here, and the tenants of whom somebody waits.
  void heard(const Stream& stream);
  void end_step(const std::set<uint64_t>& waiting);
  // What each had been served when last all of them waited, in virtual tokens.
  const std::map<uint64_t, int64_t>& together() const { return together_; }

 private:
  struct Account {
    int weight = 1;
    double bound = 0;  // what its sequences that run at a time may come to, by weight
    int64_t served = 0;
  };
  struct Progress {
    int n_prompt = 0, n_ever = 0;
    size_t n_heard = 0;
  };
  void serve(const Stream& stream, int64_t n);
  static double by_weight(const Account& account);

  struct Range {
    double low = 0, high = 0;
  };

  bool checks_ = false;
  const double allowance_;
  Failure& failure_;
  std::map<uint64_t, Account> accounts_;
  std::map<SeqId, Progress> progress_;
  std::map<uint64_t, int64_t> together_;
  std::map<std::pair<uint64_t, uint64_t>, Range> differences_;  // of two that have both waited since
};

}  // namespace quire::sim
