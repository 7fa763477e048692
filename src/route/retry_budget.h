// How many requests may be asked a second time elsewhere: one for each five, beside a burst, so that failing workers do
// not double the load of the others. Any thread.
#pragma once
#include <cstdint>
#include <mutex>

namespace quire {

class RetryBudget {
 public:
  explicit RetryBudget(int64_t burst) : most_(burst * kEach), left_(most_) {}
  void note_request() {
    const std::lock_guard lock(mu_);
    if (left_ < most_) ++left_;
  }
  // False: none is left.
  bool take() {
    const std::lock_guard lock(mu_);
    if (left_ < kEach) return false;
    left_ -= kEach;
    return true;
  }

 private:
  static constexpr int64_t kEach = 5;
  std::mutex mu_;
  const int64_t most_;
  int64_t left_;
};

}  // namespace quire
