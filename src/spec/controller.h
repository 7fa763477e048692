// How far to guess: for each stream and step the depth that is worth most accepted tokens per second over the whole
// batch (SmartSpec, Liu et al. 2024: goodput), by what steps took (step_time.h) and by what came true. Acceptance alone
// says nothing: where verifying costs, the best of guesses lose. How likely the guess at a position is made and comes
// true is learned of every stream, shrunk to the mean of all while it is young. Depth 0 asks nobody.
//
// A tree has other tokens in the place of the first, one of which at most comes true. Each is a row more and pays by
// itself, by how often those of its rank came true, in all streams; of little that is known the best is thought.
//
// Who guesses may have to take in what a stream wrote meanwhile before its first guess. What that takes is learned, and
// a stream is asked for only where the guesses that it has time for pay for it.
//
// A choice changes when another promises 5 % more for eight steps on end, or 1 % for 64; at most a hundredth of the
// time is spent on trying others. The first steps with a number of streams try several depths, as long as that has not
// lost more than a hundredth of the time and a few steps. It decides by what it is told alone, so the same steps teach
// the same. It changes what steps cost, never an answer. Engine thread.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/types.h"
#include "spec/draft.h"
#include "spec/step_time.h"

namespace quire {

class DepthController {
 public:
  // Depths up to max_depth, and up to max_side tokens beside the first of a guess.
  explicit DepthController(int max_depth, int max_side = 0);

  struct Stream {
    SeqId seq = 0;
    int most = 0;      // guesses that it may have
    int depth = 0;     // the answer: 0 … most
    int n_tokens = 0;  // that it has
    int n_left = 0;    // that it may write still
    int side = 0;      // the answer: tokens beside the first
  };
  // Fills in the depths; throws std::bad_alloc alone. `n_streams` and `n_keys`: of the whole step, those that may have
  // no guesses too.
  void choose(std::span<Stream> streams, int n_streams, int64_t n_keys);

  // What became of the step; throw nothing. That a stream was asked for `n_asked` and `n_drafted` came, unless who
  // guesses was still taking in what came before.
  void asked(SeqId seq, int n_asked, int n_drafted);
  void verified(const Verified& what);
  struct Outcome {
    int n_drafted = 0, n_new = 0;  // guessed rows; tokens that streams have more
    int64_t ns = 0;
    bool alone = true;       // the duration is that of streams and guesses, not of prompts beside them
    bool caught_up = false;  // who guesses took in more than guesses leave behind
  };
  void observe(const Outcome& outcome);
  void forget(SeqId seq);

  int depth() const { return step_.n_rounds; }  // of the last step, the most of any stream
  bool trying() const { return trying_; }       // in it, whatever seemed to pay
  int64_t n_explored() const { return n_explored_; }
  // Against steps without guesses, as they would have been: of all steps that were alone and had guesses, those that
  // gained and those that lost.
  int64_t saved_ns() const { return static_cast<int64_t>(saved_ns_); }
  int64_t lost_ns() const { return static_cast<int64_t>(lost_ns_); }

 private:
  static constexpr int kPlaces = 8;  // of a guess; those behind are as the last
  static constexpr int kSides = 16;  // beside the first, in the order in which they are guessed
  struct Record {
    std::array<float, kPlaces> asked{}, made{};  // made where all before it were
    std::array<float, kPlaces> tried{}, came{};  // came true where all before it did
    int n_first = 0, n_tokens = 0, n_known = 0;  // when it was first seen, last seen, last asked for
  };
  struct Regime {  // of about as many streams
    int rounds = 0, n_better = 0;
    int n_begun = 0, next_try = 0;
    double gained = 0, gained_squares = 0, n_gained = 0;  // of a plain step, by steps that guessed as chosen
    int n_held = 0, hold = 0;           // steps without guesses, because those before lost; how many there were
    int n_narrow = 0, narrow_hold = 0;  // likewise without tokens beside the first
  };
  // One stream of the step at hand.
  struct Asked {
    Record* record = nullptr;
    double catch_up_ns = 0, share_ns = 0;  // in all; of this step, if it is to pay in the time that it has
  };
  struct Choice {
    double rate = 0;       // tokens per nanosecond
    double threshold = 0;  // guesses less likely than this do not pay
  };
  // What a stream's guesses are worth: tokens expected, rows expected, and how deep.
  struct Worth {
    double gain = 0, rows = 0;
    int depth = 0, side = 0;
  };
  Regime& regime(int n_streams);
  void follow(std::span<const Stream> streams);
  double catch_up_ns(const Record& record, int n_tokens) const;
  Worth worth(size_t stream, int rounds, const Choice& choice) const;
  Choice weigh(int rounds) const;
  Choice decide(Regime& regime);
  void begin(Regime& regime, std::span<Stream> streams);
  bool tries(Regime& regime, std::span<const Stream> streams, const Choice& now);
  void try_some(std::span<const Stream> streams, double room_ns);
  void set(std::span<Stream> streams, int rounds, const Choice& choice);
  void set_tried(std::span<Stream> streams, int rounds, int side) const;
  void charge(const Outcome& outcome);
  void guard(Regime& regime, double gained) const;

  int n_sides(double threshold) const;

  const int max_depth_, max_side_;
  StepTime time_;
  std::unordered_map<SeqId, Record> of_;
  Record all_;
  std::array<float, kSides> side_tried_{}, side_came_{};  // beside the first, by rank, of all streams
  std::array<Regime, StepTime::kBuckets> regimes_;
  // Of the step at hand: of every stream the chances that a guess is made, and that it is made and true, by place.
  std::vector<float> made_, reach_;
  std::vector<Asked> asked_;
  std::vector<std::pair<double, size_t>> order_;
  DraftedStep step_;
  double step_behind_ = 0;  // tokens that those asked for were behind
  bool trying_ = false;     // begins or explores
  bool exploring_ = false, looking_ = false;
  bool narrow_ = false;  // nothing beside the first
  int burst_ = 0, burst_rounds_ = 0, burst_side_ = 0, burst_streams_ = 0;
  std::vector<SeqId> tried_;  // who is asked for meanwhile
  double all_ns_ = 0, explored_ns_ = 0, looked_ns_ = 0, debt_ns_ = 0;
  double behind_ns_ = 0, behind_tokens_ = -1;  // what taking in took, and of how many tokens; below 0: not known
  double mean_answer_ = 64;
  double saved_ns_ = 0, lost_ns_ = 0;
  int64_t n_explored_ = 0;
};

}  // namespace quire
