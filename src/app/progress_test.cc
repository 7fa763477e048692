#include "app/progress.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Progress, TheLineSaysHowFar) {
  EXPECT_EQ(progress_line("x", 0, 10), "x [..............................] 0 %");
  EXPECT_EQ(progress_line("x", 5, 10), "x [###############...............] 50 %");
  EXPECT_EQ(progress_line("x", 11, 10), "x [##############################] 100 %");
  EXPECT_EQ(progress_line("x", 7, 0), "x 7");
  EXPECT_EQ(progress_line("x", int64_t{1} << 62, int64_t{1} << 62), "x [##############################] 100 %");
}

TEST(Progress, BytesHaveARateAndATimeLeft) {
  const auto bytes = [](int64_t done, int64_t total, double per_s) {
    return amount_progress(Progress::Unit::bytes, done, total, per_s);
  };
  EXPECT_EQ(bytes(1'000'000'000, 2'200'000'000, 60e6), "  1.00 GB of 2.20 GB, 60.0 MB/s, 0:20 left");
  EXPECT_EQ(bytes(0, 36'610'000'000, 1e7), "  0 B of 36.61 GB, 10.0 MB/s, 1:01:01 left");
  EXPECT_EQ(bytes(5, 10, 0), "  5 B of 10 B");
  EXPECT_EQ(bytes(5, 0, 1), "  5 B, 1 B/s") << "nobody knows how many there are";
  EXPECT_EQ(bytes(0, int64_t{1} << 50, 1), "  0 B of 1125899.91 GB, 1 B/s");
}

TEST(Progress, PiecesHaveATimeLeft) {
  const auto pieces = [](int64_t done, int64_t total, double per_s) {
    return amount_progress(Progress::Unit::none, done, total, per_s);
  };
  EXPECT_EQ(pieces(17, 272, 0.5), "  17 of 272, 0.5/s, 8:30 left");
  EXPECT_EQ(pieces(0, 5, 0.01), "  0 of 5, 8:20 left");
  EXPECT_EQ(pieces(1000, 4096, 120.7), "  1000 of 4096, 121/s, 0:25 left");
  EXPECT_EQ(pieces(17, 272, 0), "  17 of 272");
  EXPECT_EQ(pieces(300, 272, 1), "  300 of 272, 1.0/s, 0:00 left");
}

}  // namespace
}  // namespace quire
