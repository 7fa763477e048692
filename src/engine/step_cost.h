// How long a step takes, learned from the steps that were: a straight line in the step's shape, by weighted least
// squares over relative errors, no coefficient below zero. Steps with prompts and steps without are remembered apart,
// each kind forgetting only when more of its kind come: hours without a prompt do not wash out what prompts cost. One
// slow step counts as a few spreads at most. It knows no clock: it is told durations, so a replay of these learns the
// same. Engine thread only.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/least_squares.h"

namespace quire {

// What a step computes. A row with one token costs the same whether it decodes or ends a prompt.
struct StepShape {
  int n_decode = 0;    // rows of sequences that stream: one each, and their guesses
  int n_prefill = 0;   // rows of all others
  int64_t n_keys = 0;  // keys attended, over all rows

  // n rows at positions [begin, begin + n), the last n_drafted of them guesses.
  static StepShape rows(int begin, int n, int n_drafted = 0) {
    const bool streams = n - n_drafted == 1;
    return {streams ? n : 0, streams ? 0 : n, int64_t{n} * begin + int64_t{n} * (n + 1) / 2};
  }
  StepShape& operator+=(const StepShape& o) { return add(o, 1); }
  StepShape& operator-=(const StepShape& o) { return add(o, -1); }
  friend StepShape operator+(StepShape a, const StepShape& b) { return a += b; }

 private:
  StepShape& add(const StepShape& o, int sign) {
    n_decode += sign * o.n_decode;
    n_prefill += sign * o.n_prefill;
    n_keys += sign * o.n_keys;
    return *this;
  }
};

class StepCost {
 public:
  // A step of that shape took ns; ns ≤ 0 (a clock that went back) teaches nothing.
  void observe(const StepShape& shape, int64_t ns);
  // 0 before the first observation; never negative, and never less for more work.
  double predict_ns(const StepShape& shape) const;
  // Mean distance of what was predicted from what was.
  double spread_ns() const { return spread_; }
  int64_t n_observed() const { return n_observed_; }

  // The most of n rows from position `begin` on that keep a step of `shape` within limit_ns, a spread included. At most
  // twice the largest number of prompt rows seen so far: beyond that a line is a guess.
  int fit(const StepShape& shape, int begin, int n, double limit_ns) const;
  // Likewise of n rows of streams, without what they attend to.
  int fit_streams(const StepShape& shape, int n, double limit_ns) const;

 private:
  static constexpr size_t kN = 4;
  using Vector = std::array<double, kN>;
  using Memory = LineSums<kN>;
  static Vector features(const StepShape& shape);

  Memory with_prompts_, without_;
  Vector w_{};  // ns per unit of each feature
  double spread_ = 0;
  int64_t n_observed_ = 0;
  int most_prefill_ = 0;
};

}  // namespace quire
