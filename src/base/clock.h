// Time as an input: core code asks a Clock, never the system, so that the engine runs in a simulation and in replays.
#pragma once
#include <chrono>
#include <cstdint>

namespace quire {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() = 0;  // monotonic, nanoseconds since an arbitrary start
};

class SystemClock final : public Clock {
 public:
  int64_t now_ns() override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// A clock that a test or a replay moves by hand.
class ManualClock final : public Clock {
 public:
  int64_t now_ns() override { return now_ns_; }
  void advance_ns(int64_t delta) { now_ns_ += delta; }

 private:
  int64_t now_ns_ = 0;
};

}  // namespace quire
