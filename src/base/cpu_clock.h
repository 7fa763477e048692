// The processor time that the whole program, all threads, or the thread that asks has taken: clocks to measure with.
#pragma once
#include <ctime>

#include "base/clock.h"

namespace quire {

template <clockid_t kOf>
class CpuClock final : public Clock {
 public:
  int64_t now_ns() override {
    std::timespec t{};
    ::clock_gettime(kOf, &t);
    return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }
};
using ProcessCpuClock = CpuClock<CLOCK_PROCESS_CPUTIME_ID>;
using ThreadCpuClock = CpuClock<CLOCK_THREAD_CPUTIME_ID>;

}  // namespace quire
