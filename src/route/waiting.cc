#include "route/waiting.h"

#include <utility>

namespace quire {

bool Waiting::enter(std::shared_ptr<Waiter> waiter, int64_t until_ns) {
  const std::lock_guard lock(mu_);
  if (static_cast<int64_t>(entries_.size()) >= limits_.n_waiting) return false;
  entries_.push_back({std::move(waiter), until_ns});
  return true;
}

void Waiting::leave(const Waiter& waiter) {
  std::list<Entry> left;  // let go of without the lock
  const std::lock_guard lock(mu_);
  for (auto it = entries_.begin(); it != entries_.end(); ++it)
    if (it->waiter.get() == &waiter) {
      left.splice(left.begin(), entries_, it);
      return;
    }
}

void Waiting::wake() {
  std::list<Entry> woken;
  {
    const std::lock_guard lock(mu_);
    woken.swap(entries_);
  }
  for (const Entry& entry : woken) entry.waiter->on_worker();
}

void Waiting::expire() {
  std::list<Entry> over;
  {
    const std::lock_guard lock(mu_);
    const int64_t now = clock_.now_ns();
    for (auto it = entries_.begin(); it != entries_.end();) {
      const auto at = it++;
      if (at->until_ns <= now) over.splice(over.end(), entries_, at);
    }
  }
  for (const Entry& entry : over) entry.waiter->on_no_worker();
}

int64_t Waiting::n_waiting() const {
  const std::lock_guard lock(mu_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace quire
