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
  EXPECT_EQ(byte_progress(1'000'000'000, 2'200'000'000, 60e6), "  1.00 GB of 2.20 GB, 60.0 MB/s, 0:20 left");
  EXPECT_EQ(byte_progress(0, 36'610'000'000, 1e7), "  0 B of 36.61 GB, 10.0 MB/s, 1:01:01 left");
  EXPECT_EQ(byte_progress(5, 10, 0), "  5 B of 10 B");
  EXPECT_EQ(byte_progress(0, int64_t{1} << 50, 1), "  0 B of 1125899.91 GB, 1 B/s");
}

}  // namespace
}  // namespace quire
