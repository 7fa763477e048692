// A proposer that knows how the answers go on and makes every use of it: right, wrong, half right, beyond the end, lies
// of every kind, exceptions. Whatever it says, nobody's answer may change. Test code only.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "spec/proposer.h"

namespace quire {

enum class Guess : uint8_t {
  right,     // the answer, and past its end anything
  half,      // the answer for a while, then something else
  wrong,     // something else from the first token on
  branches,  // a tree whose first path is right for a while
  beside,    // a tree whose first path is wrong somewhere, and which has what is right beside it
  nothing,
  too_long,   // more than was asked for
  outside,    // an id that is no token
  torn,       // lists of other lengths than the tokens
  oversure,   // surer than it has tokens
  looped,     // a tree in which a token follows itself, one behind it, or nothing that there is
  throws,     // then nobody has a draft in this step
  n_guesses,  // how many there are
};

class ScriptedProposer final : public Proposer {
 public:
  // What the sequence will answer in all; asked while it runs.
  using Truth = std::function<std::span<const Token>(SeqId)>;

  // With no guesses given: all of them, as the seed falls.
  ScriptedProposer(int max_draft, int n_vocab, uint64_t seed, Truth truth, std::vector<Guess> guesses = {})
      : max_draft_(max_draft), n_vocab_(n_vocab), seed_(seed), truth_(std::move(truth)), guesses_(std::move(guesses)) {
    const bool all = guesses_.empty();
    for (int i = 0; all && i < static_cast<int>(Guess::n_guesses); ++i) guesses_.push_back(static_cast<Guess>(i));
  }

  int max_draft() const override { return max_draft_; }
  int max_side() const override { return kSide; }
  void propose(std::span<Draft> drafts) override {
    for (Draft& draft : drafts) {
      QR_CHECK(draft.max_tokens >= 1 && draft.max_tokens <= max_draft_ && draft.tokens.empty());
      QR_CHECK(draft.max_side >= 0 && draft.max_side <= kSide && draft.parents.empty());
      last_[draft.seq] = fill(draft);
    }
  }
  void observe(std::span<const Verified> verified) override {
    for (const Verified& v : verified) {
      QR_CHECK(v.n_drafted >= 1 && v.n_accepted >= 0 && v.n_accepted <= v.n_drafted + v.n_side);
      QR_CHECK(v.n_right <= std::min(v.n_drafted, v.n_accepted) && v.came < v.n_first && v.n_first <= v.n_side);
      const Guess guess = last_.at(v.seq);
      QR_CHECK(guess <= Guess::beside, "a lie was verified");
      QR_CHECK(guess != Guess::wrong || v.n_accepted == 0, "a wrong guess was accepted");
      n_drafted[guess] += v.n_drafted + v.n_side;
      n_beside += v.n_accepted - v.n_right;
      n_accepted[guess] += v.n_accepted;
    }
  }
  void forget(SeqId id) override { last_.erase(id); }
  size_t n_known() const { return last_.size(); }

  std::map<Guess, int64_t> n_drafted, n_accepted;
  int64_t n_beside = 0;  // of those that came true the ones that were no part of the draft proper

  static constexpr int kSide = 6;

 private:
  Guess fill(Draft& draft) const {
    const uint64_t bits = mix64(seed_ ^ mix64(draft.seq * 1000003 + draft.context.size()));
    const Guess guess = guesses_[bits % guesses_.size()];
    const std::span<const Token> truth = truth_(draft.seq);
    const size_t done = draft.context.size() - static_cast<size_t>(draft.n_prompt);
    const auto n_right = static_cast<size_t>(bits >> 32) % static_cast<size_t>(draft.max_tokens + 1);
    const int n = guess == Guess::nothing ? 0 : guess == Guess::too_long ? draft.max_tokens + 1 : draft.max_tokens;
    for (int i = 0; i < n; ++i) {
      const size_t at = done + static_cast<size_t>(i);
      const auto any = static_cast<Token>(mix64(bits + at) % static_cast<uint64_t>(n_vocab_));
      const Token next = at < truth.size() ? truth[at] : any;
      const bool partly = guess == Guess::half || guess == Guess::branches || guess == Guess::beside;
      const bool errs = guess == Guess::wrong || (partly && i >= static_cast<int>(n_right));
      // What is wrong is surely wrong: past the end of what is known nothing is.
      draft.tokens.push_back(errs && at < truth.size() ? (next + 1) % n_vocab_ : next);
    }
    if (guess == Guess::wrong && done >= truth.size()) draft.tokens.clear();
    if (guess == Guess::branches) {
      for (int i = 0; i < n; ++i) draft.parents.push_back(i < static_cast<int>(n_right) ? i - 1 : -1);
    }
    if (guess == Guess::beside) put_beside(draft, truth, done, n_right, bits);
    if (guess == Guess::looped) {
      for (int i = 0; i < n; ++i) draft.parents.push_back(i - 1);
      draft.parents.back() = bits % 3 == 0 ? n - 1 : bits % 3 == 1 ? n : -2;
    }
    if (guess == Guess::outside) draft.tokens.back() = bits % 2 == 0 ? -1 : n_vocab_;
    if (guess == Guess::torn)
      (bits % 2 == 0 ? draft.probs.resize(draft.tokens.size() + 1) : draft.parents.resize(draft.tokens.size() + 1));
    if (guess == Guess::oversure) draft.n_sure = bits % 2 == 0 ? n + 1 : -1;
    if (guess == Guess::throws) throw std::runtime_error("a proposer that fails");
    return guess;
  }

  // Where the first path goes wrong, another that does not for a while, on which something wrong branches off again,
  // and wrong ones from the first token on.
  void put_beside(Draft& draft, std::span<const Token> truth, size_t done, size_t n_right, uint64_t bits) const {
    const auto n_chain = static_cast<int>(draft.tokens.size());
    for (int i = 0; i < n_chain; ++i) draft.parents.push_back(i - 1);
    const auto right = [&](size_t i) { return done + i < truth.size() ? truth[done + i] : Token{0}; };
    auto parent = static_cast<int32_t>(n_right) - 1;
    const int n_on = static_cast<int>(bits >> 8) % 4;
    for (int i = 0; i < draft.max_side; ++i) {
      const bool goes_on = i <= n_on && n_right < static_cast<size_t>(n_chain);
      draft.tokens.push_back(goes_on ? right(n_right + static_cast<size_t>(i)) : (right(0) + 2 + i) % n_vocab_);
      draft.parents.push_back(goes_on ? parent : i % 2 == 0 ? -1 : parent);
      if (goes_on) parent = static_cast<int32_t>(draft.tokens.size()) - 1;
    }
  }

  const int max_draft_, n_vocab_;
  const uint64_t seed_;
  const Truth truth_;
  std::vector<Guess> guesses_;
  std::map<SeqId, Guess> last_;
};

}  // namespace quire
