// Counts of durations in bins that grow with the value: 128 to each power of two, so a percentile is at most 1/128
// above the true one, and memory does not grow with the run (as in HdrHistogram). Not thread-safe.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace quire {

class LatencyHistogram {
 public:
  // REQUIRES value ≥ 0.
  void record(int64_t value) {
    const size_t bin = bin_of(static_cast<uint64_t>(value));
    if (bin >= counts_.size()) counts_.resize(bin + 1);
    ++counts_[bin];
    ++n_;
    sum_ += static_cast<double>(value);
    max_ = std::max(max_, value);
  }
  int64_t count() const { return n_; }
  int64_t max() const { return max_; }
  double mean() const { return n_ > 0 ? sum_ / static_cast<double>(n_) : 0.0; }
  // The smallest value that at least `percent` of the records do not exceed, rounded up to its bin; 0 without records.
  int64_t percentile(double percent) const {
    auto left = static_cast<int64_t>(std::ceil(static_cast<double>(n_) * percent / 100.0));
    for (size_t bin = 0; bin < counts_.size(); ++bin) {
      left -= counts_[bin];
      if (left <= 0 && counts_[bin] > 0) return std::min(max_, last_of(bin));
    }
    return max_;
  }

 private:
  static constexpr int kBits = 7;
  static size_t bin_of(uint64_t value) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kBits - 1);
    return (static_cast<size_t>(shift) << kBits) + static_cast<size_t>(value >> shift);
  }
  static int64_t last_of(size_t bin) {
    const size_t shift = bin < (size_t{2} << kBits) ? 0 : (bin >> kBits) - 1;
    const size_t mantissa = bin - (shift << kBits);
    return static_cast<int64_t>(((mantissa + 1) << shift) - 1);
  }
  std::vector<int64_t> counts_;
  int64_t n_ = 0, max_ = 0;
  double sum_ = 0;
};

}  // namespace quire
