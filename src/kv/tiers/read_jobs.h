// Runs that a tier has been asked for, block by block in the order of their coming, and how long blocks took. Not for
// several threads: a tier has them under its lock.
#pragma once
#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <vector>

#include "kv/tiers/tier.h"

namespace quire {

class ReadJobs {
 public:
  void add(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) { jobs_.push_back({read, begin, end}); }
  bool empty() const { return jobs_.empty(); }
  // The next block that somebody wants still. False: there is none.
  bool next(std::shared_ptr<TierRead>& read, size_t& i) {
    while (!jobs_.empty()) {
      Job& job = jobs_.front();
      const bool wanted = !job.read->abandoned();
      if (wanted) {
        read = job.read;
        i = job.next++;
      }
      if (!wanted || job.next == job.end) jobs_.pop_front();
      if (wanted) return true;
    }
    return false;
  }
  int64_t n_blocks() const {
    int64_t out = 0;
    for (const Job& job : jobs_) out += static_cast<int64_t>(job.end - job.next);
    return out;
  }

 private:
  struct Job {
    std::shared_ptr<TierRead> read;
    size_t next = 0, end = 0;
  };
  std::deque<Job> jobs_;
};

// The mean of what calls took, the newest counting most. It halves in 8 s without any, so that what was slow is tried
// again.
class CallTimes {
 public:
  explicit CallTimes(size_t most_at_once) { since_ns_.reserve(most_at_once); }  // so that begin() needs no memory
  void begin(int64_t now_ns) { since_ns_.push_back(now_ns); }
  // A call that began at begin_ns is over; it was measured, or says nothing.
  void end(int64_t begin_ns, int64_t now_ns, bool measured) {
    const auto at = std::find(since_ns_.begin(), since_ns_.end(), begin_ns);
    if (at != since_ns_.end()) since_ns_.erase(at);
    if (!measured) return;
    constexpr double kNewest = 1.0 / 8;
    const auto took = static_cast<double>(std::max<int64_t>(now_ns - begin_ns, 0));
    mean_ns_ = mean_ns_ == 0 ? took : mean_ns_ + (took - mean_ns_) * kNewest;
    at_ns_ = now_ns;
  }
  int64_t n_running() const { return std::ssize(since_ns_); }
  // What n calls take, so many of them at once, and as much again as the longest that hangs has taken. 0: unknown yet.
  int64_t predict_ns(int64_t n, int at_once, int64_t now_ns) const {
    constexpr double kHalfLifeNs = 8'000'000'000;
    const auto age_ns = static_cast<double>(std::max<int64_t>(now_ns - at_ns_, 0));
    double out = mean_ns_ * std::exp2(-age_ns / kHalfLifeNs) * static_cast<double>(n) / at_once;
    int64_t longest_ns = 0;  // what has taken so long will take as long again
    for (const int64_t since_ns : since_ns_) longest_ns = std::max(longest_ns, now_ns - since_ns);
    if (static_cast<double>(longest_ns) > 2 * mean_ns_) out += static_cast<double>(longest_ns);
    return static_cast<int64_t>(out);
  }

 private:
  std::vector<int64_t> since_ns_;  // when each that runs now began
  double mean_ns_ = 0;
  int64_t at_ns_ = 0;  // when the last was measured
};

}  // namespace quire
