// Time as others are held to it: a limit of what they may take must not count a stretch in which nobody listened to
// them, because this process was stopped or had no processor. What they said meanwhile lies unread, and who looks at
// the time first would find them late. One thread at a time.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace quire {

class Patience {
 public:
  // Between two looks at most `most_ns` pass. REQUIRES `clock` outlives it.
  Patience(Clock& clock, int64_t most_ns) : clock_(clock), most_ns_(most_ns), looked_ns_(clock.now_ns()) {}

  // Nanoseconds that have passed, > 0; never goes back.
  int64_t now_ns() const { return at(clock_.now_ns()); }
  // To be called regularly, by who listens; what it returns is now_ns().
  int64_t look() {
    const int64_t now = clock_.now_ns();
    passed_ns_ = at(now);
    looked_ns_ = now;
    return passed_ns_;
  }

 private:
  int64_t at(int64_t clock_ns) const { return passed_ns_ + std::clamp<int64_t>(clock_ns - looked_ns_, 0, most_ns_); }

  Clock& clock_;
  const int64_t most_ns_;
  int64_t looked_ns_, passed_ns_ = 1;
};

}  // namespace quire
