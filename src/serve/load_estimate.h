// How long a refused client should wait: until what waits in the engine will have been computed, as the engine predicts
// it; where it cannot yet, requests ahead × the recent time between two finished ones. Any thread.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

namespace quire {

class LoadEstimate {
 public:
  void finished(int64_t now_ns) {
    const int64_t last = last_ns_.exchange(now_ns, std::memory_order_relaxed);
    if (last == 0) return;
    const int64_t gap = std::clamp<int64_t>(now_ns - last, 0, kMaxGapNs);
    // Two finishes at once may lose one sample; an estimate may.
    const int64_t mean = gap_ns_.load(std::memory_order_relaxed);
    gap_ns_.store(mean == 0 ? gap : mean + (gap - mean) / kSamples, std::memory_order_relaxed);
  }
  // Whole seconds in [1, max_s]. predicted_ns 0: the engine cannot say.
  int64_t retry_after_s(int64_t predicted_ns, int64_t n_ahead, int64_t max_s) const {
    const double gap_ns = static_cast<double>(gap_ns_.load(std::memory_order_relaxed));
    const double ns = predicted_ns > 0 ? static_cast<double>(predicted_ns) : gap_ns * static_cast<double>(n_ahead);
    return std::clamp<int64_t>(static_cast<int64_t>(ns * 1e-9) + 1, 1, std::max<int64_t>(max_s, 1));
  }

 private:
  static constexpr int64_t kMaxGapNs = 60'000'000'000;  // an idle hour says nothing about load
  static constexpr int64_t kSamples = 16;
  std::atomic<int64_t> last_ns_{0}, gap_ns_{0};
};

}  // namespace quire
