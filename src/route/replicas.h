// How many workers there should be, for who starts and ends them. The one idea: work is measured in the time that a
// worker takes for it. What a router is given in a second takes its workers so many seconds, and so many of them are
// needed; what waits is to be begun within a goal; and no worker is to answer more than so many requests at once.
#pragma once
#include <cstdint>

namespace quire {

// What a router has given to its workers. Plain values.
struct FleetWork {
  double given_s = 0;      // worker-seconds of prompts since the start: their tokens times what a token took last
  double backlog_s = 0;    // of them, what no worker has begun to answer, and requests for which there is no worker
  int64_t n_requests = 0;  // under way, those without a worker too
  int64_t n_usable = 0;    // workers
};

struct ReplicaGoals {
  double backlog_s = 1;     // in which what waits is to be begun
  double busy_share = 0.7;  // of its time that a worker is to be given prompts for
  int64_t n_requests = 32;  // of one worker at once
};

// One thread at a time.
class ReplicaEstimate {
 public:
  explicit ReplicaEstimate(const ReplicaGoals& goals) : goals_(goals) {}
  // What is there now. REQUIRES `now_ns` and `given_s` do not fall.
  void see(int64_t now_ns, const FleetWork& work);
  // Workers that there should be, not rounded: the larger one of (what was given in a second / busy_share + backlog /
  // goal) and (requests / n_requests), each a mean of the last minute, the backlog of the last ten seconds. Of a fleet
  // of n workers between 0 and 2 n + 1: what a lie or a stalled worker could add is bounded, and one look later the
  // next ones may be asked for.
  double desired() const { return desired_; }

 private:
  const ReplicaGoals goals_;
  int64_t seen_ns_ = 0;  // 0: never
  double given_s_ = 0, rate_ = 0, backlog_s_ = 0, n_requests_ = 0, desired_ = 0;
};

}  // namespace quire
