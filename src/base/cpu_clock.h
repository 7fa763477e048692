// The processor time that the whole program has taken, all threads: not a Clock to decide by, but one to measure with.
#pragma once
#include <ctime>

#include "base/clock.h"

namespace quire {

class ProcessCpuClock final : public Clock {
 public:
  int64_t now_ns() override {
    std::timespec t{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }
};

}  // namespace quire
