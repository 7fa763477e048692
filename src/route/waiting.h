// Requests for which there is no worker now: a bounded number, for a bounded time. Any thread; what waits is told where
// it says.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "route/limits.h"

namespace quire {

class Waiter {
 public:
  virtual ~Waiter() = default;
  // There may be a worker. Or the time is over. Either is called once for each enter(), on any thread: must not block.
  virtual void on_worker() = 0;
  virtual void on_no_worker() = 0;
};

class Waiting {
 public:
  Waiting(const RouteLimits& limits, Clock& clock) : limits_(limits), clock_(clock) {}
  // Until then at most. False: there is no place.
  bool enter(std::shared_ptr<Waiter> waiter, int64_t until_ns);
  // It is told nothing any more. Needs no place.
  void leave(const Waiter& waiter);
  // Tells all of them that there may be a worker.
  void wake();
  // Tells those whose time is over.
  void expire();
  int64_t n_waiting() const;

 private:
  struct Entry {
    std::shared_ptr<Waiter> waiter;
    int64_t until_ns;
  };
  const RouteLimits& limits_;
  Clock& clock_;
  mutable std::mutex mu_;
  std::list<Entry> entries_;  // who came first stands first; guarded by mu_
};

}  // namespace quire
