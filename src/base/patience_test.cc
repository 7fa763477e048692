#include "base/patience.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Patience, PassesWithTheClockWhileSomebodyLooks) {
  ManualClock clock;
  clock.advance_ns(1000);
  Patience patience(clock, 20);
  const int64_t begun = patience.now_ns();
  EXPECT_GT(begun, 0);
  for (int i = 1; i <= 10; ++i) {
    clock.advance_ns(15);
    EXPECT_EQ(patience.now_ns(), begun + 15 * i);
    EXPECT_EQ(patience.look(), begun + 15 * i);
  }
}

TEST(Patience, CountsLittleOfAStretchInWhichNobodyLooked) {
  ManualClock clock;
  Patience patience(clock, 20);
  const int64_t begun = patience.now_ns();
  clock.advance_ns(1'000'000);
  EXPECT_EQ(patience.now_ns(), begun + 20);
  clock.advance_ns(1'000'000);
  EXPECT_EQ(patience.now_ns(), begun + 20) << "it is the same stretch";
  EXPECT_EQ(patience.look(), begun + 20);
  clock.advance_ns(5);
  EXPECT_EQ(patience.look(), begun + 25);
}

}  // namespace
}  // namespace quire
