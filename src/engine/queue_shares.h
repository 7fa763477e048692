// How many places in the queue each tenant has, so that none gets all of them. There are an eighth more than one tenant
// may have, and while few are left who has many gets no more: whoever comes next finds those. A place is had from
// submit to the first step. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/turn_queue.h"

namespace quire {

class QueueShares {
 public:
  static constexpr int places(int max) { return max + max / static_cast<int>(kTurnShare); }
  // `n` places more. `max` is what one tenant may have, `n_waiting` are all that wait. False, with nothing changed:
  // there are not so many, or the tenant has its share. May throw std::bad_alloc, likewise. REQUIRES n ≥ 1.
  bool enter(uint64_t tenant, int n, int max, int n_waiting) {
    const std::lock_guard lock(mu_);
    const auto at = n_of_.find(tenant);
    const size_t n_own = (at == n_of_.end() ? 0 : at->second) + static_cast<size_t>(n - 1);  // before the last of them
    const int n_free = places(max) - n_waiting - (n - 1);
    if (n_free <= 0 || std::cmp_greater_equal(n_own, max) || !may_have_place(n_own, static_cast<size_t>(n_free)))
      return false;
    if (at == n_of_.end())
      n_of_.emplace(tenant, n);
    else
      at->second += static_cast<size_t>(n);
    return true;
  }
  // REQUIRES that many entered.
  void leave(uint64_t tenant, int n = 1) {
    const std::lock_guard lock(mu_);
    const auto at = n_of_.find(tenant);
    at->second -= static_cast<size_t>(n);
    if (at->second == 0) n_of_.erase(at);
  }

 private:
  std::mutex mu_;
  std::unordered_map<uint64_t, size_t> n_of_;  // none is 0
};

}  // namespace quire
