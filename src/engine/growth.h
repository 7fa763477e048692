// Who may come in beside those that run, so that nothing thrashes: how far all of them will grow is simulated, and a
// sequence waits where there would be no room for it. How long answers get is learned from those that ended. Where that
// was wrong blocks run out, and somebody's tokens are lost and computed again: that is what the credit is for. It has a
// share of all that is computed for the first time, at most as many tokens as the cache holds. The less is left, the
// more of what a request might ask for is reckoned with; with none left all of it, and then blocks cannot run out.
// So of all tokens that are computed those that were lost for want of blocks are at most that share, and what the cache
// and those that run hold once. Integers alone, so that a replay decides the same. Engine thread only.
// Source: the simulated peak is that of the past-future scheduler (Gong et al., ASPLOS 2025).
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "engine/sequence.h"

namespace quire {

// How long answers were, the last few hundred of them.
class AnswerLengths {
 public:
  void add(int n_tokens);
  // What one that has n_tokens already is expected to have beyond these: what longer ones had; where none was longer,
  // as much again; 0 where nothing is known.
  int64_t left(int n_tokens) const;

 private:
  static constexpr int kBuckets = 120;  // four for each power of two
  static size_t bucket_of(int n_tokens);
  struct Bucket {
    int64_t n = 0, n_tokens = 0;
  };
  std::array<Bucket, kBuckets> buckets_{};
  int64_t n_ = 0;
};

// One that runs, or would: slots are tokens' places in blocks.
struct Growing {
  int64_t n_missing = 0;  // slots of blocks to be taken for what it has pending, and half of a block that is not full
  int64_t n_left = 0;     // tokens that it will have beyond these
  int64_t n_freed = 0;    // slots that come free when it ends
};
// The most slots that have to be taken at a time, if all write a token a step until they end. Changes the order of
// `all`.
int64_t peak_of(std::span<Growing> all);

class Growth {
 public:
  // Of `share` of what is computed (0 to 1, 1: nothing is simulated, and the credit has no end) in a cache of
  // most_tokens.
  Growth(double share, int64_t most_tokens);

  bool bounded() const { return share_ < kUnit; }
  // No more is to be lost: nobody comes in but where all find room for the most that they may ask for.
  bool strict() const { return bounded() && credit_ <= 0; }
  // Tokens that may still be lost; negative where more were.
  int64_t credit() const { return credit_ / kUnit - (credit_ % kUnit < 0 ? 1 : 0); }
  int64_t most_credit() const { return most_ / kUnit; }

  // What the sequence will have beyond the tokens that it has, of at most `most`.
  int64_t left(const Sequence& seq, int64_t most) const;

  void answered(const Sequence& seq) { lengths_.add(seq.n_generated()); }
  // n tokens were computed for the first time.
  void computed(int64_t n);
  // Blocks ran out and it is sent back: all that it ever computed may have to be computed again.
  void lose(Sequence& seq);
  // It has n_found of these again, or leaves (then all): they are not.
  void find_again(Sequence& seq, int64_t n_found);

 private:
  static constexpr int64_t kUnit = 1'000'000;  // of a token
  void add(int64_t units);

  const int64_t share_, most_;  // in units: of a token that is computed, in all
  int64_t credit_;
  AnswerLengths lengths_;
};

}  // namespace quire
