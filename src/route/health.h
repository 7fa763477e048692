// Whether a worker may be given requests, from what became of those that it was given and from what it says when it is
// asked. The one idea: failures count across requests, and coming back is harder than staying: a worker that failed is
// out for a time that doubles, and then has to answer well more than once. Pure; times are given.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/nanoseconds.h"
#include "route/limits.h"

namespace quire {

enum class Probe : uint8_t { well, unwell, silent };  // unwell: it says so, or refuses; silent: no answer in time

class WorkerHealth {
 public:
  // REQUIRES limits outlives it.
  explicit WorkerHealth(const RouteLimits& limits) : limits_(&limits) {}

  // May be given requests. A worker is not, until it has answered a first time.
  bool usable(int64_t now_ns) const { return up_ && !ejected_ && rests_until_ns_ <= now_ns; }
  bool up() const { return up_; }
  bool ejected() const { return ejected_; }

  // A request of its was answered, or failed by its fault. `may_eject` says whether enough others are left. Returns
  // whether it was ejected by this.
  void worked() {
    n_failed_ = 0;
    if (!ejected_) eject_ms_ = 0;
  }
  bool failed(int64_t now_ns, bool may_eject) {
    if (++n_failed_ < limits_->n_failures || ejected_ || !may_eject) return false;
    eject_ms_ = std::min(limits_->most_eject_ms, eject_ms_ == 0 ? limits_->eject_ms : 2 * eject_ms_);
    ejected_ = true;
    out_until_ns_ = now_ns + eject_ms_ * kNsPerMs;
    n_well_ = 0;
    return true;
  }
  // It could not be connected to: there is nobody. What failed by it counts on when it comes back, until it works.
  void unreached() {
    up_ = false;
    n_well_ = 0;
  }
  // It asked to be left alone (Retry-After).
  void rest(int64_t now_ns, int64_t ms) {
    rests_until_ns_ = std::max(rests_until_ns_, now_ns + std::min(ms, limits_->most_eject_ms) * kNsPerMs);
  }
  // What it said about itself. One bad answer is enough where it says so itself, two where it is silent.
  void probed(Probe probe, int64_t now_ns) {
    if (probe == Probe::well) {
      n_silent_ = 0;
      ++n_well_;
      const int64_t enough = known_ ? limits_->n_recoveries : 1;
      if (n_well_ < enough || now_ns < out_until_ns_) return;
      if (ejected_) n_failed_ = 0;
      known_ = up_ = true;
      ejected_ = false;
      return;
    }
    n_well_ = 0;
    if (probe == Probe::unwell || ++n_silent_ >= 2) up_ = false;
  }

 private:
  const RouteLimits* limits_;
  bool known_ = false, up_ = false, ejected_ = false;
  int64_t n_failed_ = 0, n_well_ = 0, n_silent_ = 0, eject_ms_ = 0;
  int64_t out_until_ns_ = 0, rests_until_ns_ = 0;
};

}  // namespace quire
