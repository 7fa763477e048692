// What the parts of a step take, by a clock that decides nothing. Engine thread.
#pragma once
#include "base/clock.h"
#include "engine/request.h"

namespace quire {

class Laps {
 public:
  // `clock` may be null: then nothing is measured. What is measured is added to `all`, too.
  Laps(Clock* clock, StageTimes& all) : clock_(clock), all_(all) {}

  void begin_step() {
    step_ = {};
    if (clock_ != nullptr) last_ns_ = clock_->now_ns();
  }
  // What passed since the last lap was `stage`.
  void lap(Stage stage) {
    if (clock_ == nullptr) return;
    const int64_t now = clock_->now_ns();
    const auto i = static_cast<size_t>(stage);
    all_[i] += now - last_ns_;
    step_[i] += now - last_ns_;
    last_ns_ = now;
  }
  const StageTimes& step() const { return step_; }

 private:
  Clock* clock_;
  StageTimes& all_;
  StageTimes step_{};
  int64_t last_ns_ = 0;
};

}  // namespace quire
