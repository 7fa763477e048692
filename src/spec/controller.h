// How far to guess: for each stream and step the depth that is worth most accepted tokens per second over the whole
// batch (SmartSpec, Liu et al. 2024: goodput), by what steps took (step_time.h) and by what came true. Acceptance alone
// says nothing: where verifying costs, the best of guesses lose. How likely the guess at a position comes true is
// learned of every stream, shrunk to the mean of all while it is young. Depth 0 asks nobody.
//
// A choice changes when another promises 5 % more for eight steps on end, or 1 % for 64; at most a hundredth of the
// time is spent on trying others, and before that a few steps for every number of streams. It decides by what it is
// told alone, so the same steps teach the same. It changes what steps cost, never an answer. Engine thread.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "spec/step_time.h"

namespace quire {

class DepthController {
 public:
  explicit DepthController(int max_depth);

  struct Stream {
    SeqId seq = 0;
    int most = 0;   // guesses that it may have
    int depth = 0;  // the answer: 0 … most
  };
  // Fills in the depths; throws std::bad_alloc alone. `n_streams` and `n_keys`: of the whole step, those that may have
  // no guesses too.
  void choose(std::span<Stream> streams, int n_streams, int64_t n_keys);

  // What became of the guesses of the step, and what it took; throw nothing. `learns`: the duration is that of streams
  // and guesses alone, not of prompts beside them.
  void verified(SeqId seq, int n_drafted, int n_accepted);
  void observe(int n_drafted, int64_t ns, bool learns);
  void forget(SeqId seq) { of_.erase(seq); }

  int depth() const { return step_.n_rounds; }  // of the last step, the most of any stream
  int64_t n_explored() const { return n_explored_; }

 private:
  static constexpr int kPlaces = 8;  // of a guess; those behind are as the last
  struct Record {
    std::array<float, kPlaces> tried{}, came{};
  };
  struct Regime {  // of about as many streams
    int rounds = 0, n_better = 0;
    int n_begun = 0, next_try = 0;
  };
  Regime& regime(int n_streams);
  float rate(const Record* record, int place) const;
  void follow(std::span<const Stream> streams);
  struct Choice {
    double rate = 0;       // tokens per nanosecond
    double threshold = 0;  // guesses less likely than this do not pay
  };
  Choice weigh(int rounds) const;
  void set(std::span<Stream> streams, int rounds, double threshold) const;
  int begin_rounds(Regime& regime) const;
  int try_rounds(Regime& regime);

  const int max_depth_;
  StepTime time_;
  std::unordered_map<SeqId, Record> of_;
  Record all_;
  std::array<Regime, StepTime::kBuckets> regimes_;
  // Of the step at hand: of every stream the chance that a guess is reached and true, by place.
  std::vector<float> reach_;
  DraftedStep step_;
  bool exploring_ = false;
  int burst_ = 0, burst_rounds_ = 0, burst_streams_ = 0;
  double all_ns_ = 0, explored_ns_ = 0;
  int64_t n_explored_ = 0;
};

}  // namespace quire
