// How long a step with guesses takes, learned from the steps that were: for about as many streams a straight line in
// guessed rows, rounds of drafting and keys, bent to what each number of rounds took by itself, for a machine's time is
// no straight line. Steps of each number of rounds are remembered apart, and forgotten only when more of them come. It
// knows no clock, so the same durations teach the same. Engine thread.
#pragma once
#include <array>
#include <cstdint>

#include "base/least_squares.h"

namespace quire {

// A step of streams, without prompts.
struct DraftedStep {
  int n_streams = 0;     // one due row each
  double n_drafted = 0;  // guessed rows beside these
  int n_rounds = 0;      // guesses that were asked for of one stream, at most
  int64_t n_keys = 0;    // that the streams' due rows see
};

class StepTime {
 public:
  // A step took ns.
  void observe(const DraftedStep& step, int64_t ns);
  // 0 before the first observation of about as many streams.
  double predict_ns(const DraftedStep& step) const;
  // What one more guessed row adds there.
  double row_ns(int n_streams) const;
  // Numbers of streams that are told apart: 2^i to 2^(i+1) − 1, the last one all beyond.
  static constexpr size_t kBuckets = 13;
  static size_t bucket(int n_streams);

 private:
  static constexpr size_t kN = 5, kRounds = 17;
  using Vector = std::array<double, kN>;
  struct Streams {  // of one bucket
    std::array<LineSums<kN>, kRounds> by_rounds;
    std::array<double, kRounds> bend{};  // measured ÷ line
    std::array<int64_t, kRounds> n_seen{};
    Vector w{};
    double spread = 0;  // of measured ÷ predicted, about 1
  };
  static size_t rounds_of(const DraftedStep& step);
  static Vector features(const DraftedStep& step);
  static double line(const Vector& w, const Vector& x);
  static void fit(Streams& at);

  std::array<Streams, kBuckets> of_;
};

}  // namespace quire
