// What is wished for a part of a path: how long it is to stay in the cache (retention.h). Plain values.
#pragma once
#include <cstdint>

namespace quire {

inline constexpr uint8_t kUsualPriority = 35;  // of a block of which nothing was said
inline constexpr int kMostPriority = 100;
inline constexpr int64_t kMostRetentionNs = int64_t{24} * 3600 * 1'000'000'000;

// For tokens [begin, end), from when it is told on.
struct RetentionRange {
  int begin = 0, end = 0;
  int priority = kUsualPriority;  // 0 to kMostPriority: the higher stays
  int64_t duration_ns = kMostRetentionNs;
  bool operator==(const RetentionRange&) const = default;
};

}  // namespace quire
