// How many places in the queue each tenant has, so that none gets all of them: one that has more than its share is
// refused while there are a few left, and whoever comes next finds those. A place is had from submit to the first step.
// Any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "base/turn_queue.h"

namespace quire {

class QueueShares {
 public:
  // False, with nothing changed: the tenant has its share of a queue of which `n_free` places are left. May throw
  // std::bad_alloc, likewise.
  bool enter(uint64_t tenant, int n_free) {
    const std::lock_guard lock(mu_);
    const auto at = n_of_.find(tenant);
    if (!may_have_place(at == n_of_.end() ? 0 : at->second, static_cast<size_t>(n_free))) return false;
    if (at == n_of_.end())
      n_of_.emplace(tenant, 1);
    else
      ++at->second;
    return true;
  }
  // REQUIRES one that entered.
  void leave(uint64_t tenant) {
    const std::lock_guard lock(mu_);
    const auto at = n_of_.find(tenant);
    if (--at->second == 0) n_of_.erase(at);
  }

 private:
  std::mutex mu_;
  std::unordered_map<uint64_t, size_t> n_of_;  // none is 0
};

}  // namespace quire
