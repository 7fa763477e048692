// Whether guessing ahead does what it is there for, over runs of steps in which somebody could guess: that few guesses
// come true and there are some all the same, or that there are none at all because none pays. Plain values; engine
// thread.
#pragma once
#include <cstdint>
#include <string>

namespace quire {

class DraftAlarm {
 public:
  static constexpr int kSteps = 1024;            // of a run
  static constexpr int64_t kLeastDrafted = 256;  // tokens of a run that say something
  static constexpr double kLeastAccepted = 0.6;

  enum class Kind : uint8_t { none, few_accepted, never };

  // A step in which somebody could guess: tokens that were guessed because it paid, not to try, and those that came
  // true. Says what to log, once for each kind; empty: nothing.
  std::string step(int n_drafted, int n_accepted) {
    n_drafted_ += n_drafted;
    n_accepted_ += n_accepted;
    if (++n_steps_ < kSteps) return {};
    const double accepted = n_drafted_ == 0 ? 0 : static_cast<double>(n_accepted_) / static_cast<double>(n_drafted_);
    const bool few = n_drafted_ >= kLeastDrafted && accepted < kLeastAccepted;
    kind_ = n_drafted_ == 0 ? Kind::never : few ? Kind::few_accepted : Kind::none;
    n_few_ += kind_ == Kind::few_accepted ? 1 : 0;
    n_never_ += kind_ == Kind::never ? 1 : 0;
    n_steps_ = 0;
    n_drafted_ = n_accepted_ = 0;
    if (kind_ == Kind::none || (told_ & bit(kind_)) != 0) return {};
    told_ |= bit(kind_);
    if (kind_ == Kind::never)
      return "guessing ahead has not paid in " + std::to_string(kSteps) + " steps, so nobody guesses but to try";
    return "of the tokens guessed ahead in " + std::to_string(kSteps) + " steps " +
           std::to_string(static_cast<int>(accepted * 100)) + " % came true, which is under 60 %";
  }

  Kind kind() const { return kind_; }       // of the last whole run
  int64_t n_few() const { return n_few_; }  // runs of that kind
  int64_t n_never() const { return n_never_; }

 private:
  static constexpr unsigned bit(Kind kind) { return 1U << static_cast<unsigned>(kind); }

  Kind kind_ = Kind::none;
  unsigned told_ = 0;
  int n_steps_ = 0;
  int64_t n_drafted_ = 0, n_accepted_ = 0, n_few_ = 0, n_never_ = 0;
};

}  // namespace quire
