#include "route/replicas.h"

#include <algorithm>
#include <cmath>

#include "base/nanoseconds.h"

namespace quire {

void ReplicaEstimate::see(int64_t now_ns, const FleetWork& work) {
  constexpr double kLongS = 60, kShortS = 10;  // of means that forget by e
  if (seen_ns_ != 0 && now_ns > seen_ns_) {
    const double s = static_cast<double>(now_ns - seen_ns_) / static_cast<double>(kNsPerSecond);
    const auto towards = [s](double& mean, double value, double over_s) {
      mean += (1 - std::exp(-s / over_s)) * (value - mean);
    };
    towards(rate_, (work.given_s - given_s_) / s, kLongS);
    towards(backlog_s_, work.backlog_s, kShortS);
    towards(n_requests_, static_cast<double>(work.n_requests), kLongS);
  }
  if (seen_ns_ == 0 || now_ns > seen_ns_) {
    seen_ns_ = now_ns;
    given_s_ = work.given_s;
  }
  const double by_prompts = rate_ / goals_.busy_share + backlog_s_ / goals_.backlog_s;
  const double by_requests = n_requests_ / static_cast<double>(goals_.n_requests);
  desired_ = std::clamp(std::max(by_prompts, by_requests), 0.0, static_cast<double>(2 * work.n_usable + 1));
}

}  // namespace quire
