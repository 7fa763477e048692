#include "app/load/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace quire {
namespace {

TEST(LatencyHistogram, SmallValuesAreExact) {
  LatencyHistogram h;
  for (int64_t v = 0; v < 200; ++v) h.record(v);
  EXPECT_EQ(h.percentile(50), 99);
  EXPECT_EQ(h.percentile(100), 199);
  EXPECT_EQ(h.percentile(0.5), 0);
  EXPECT_DOUBLE_EQ(h.mean(), 99.5);
}

TEST(LatencyHistogram, PercentilesAreAtMostOnePart128AboveTheTrueOnes) {
  Rng rng(3);
  LatencyHistogram h;
  std::vector<int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<int64_t>(rng.bits() >> rng.between(2, 60)));
    h.record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const int percent : {1, 10, 50, 90, 95, 99, 100}) {
    const int64_t exact = values[values.size() * static_cast<size_t>(percent) / 100 - 1];
    EXPECT_GE(h.percentile(percent), exact) << percent;
    EXPECT_LE(h.percentile(percent) - exact, exact / 128) << percent;
  }
  EXPECT_EQ(h.max(), values.back());
}

TEST(LatencyHistogram, IsZeroWhenEmpty) {
  const LatencyHistogram h;
  EXPECT_EQ(h.percentile(99), 0);
  EXPECT_EQ(h.mean(), 0);
}

}  // namespace
}  // namespace quire
