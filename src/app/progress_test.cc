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

}  // namespace
}  // namespace quire
