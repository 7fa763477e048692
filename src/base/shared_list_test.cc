#include "base/shared_list.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(SharedList, IsAListWhoseCopiesAreOne) {
  const SharedList<int> list = std::vector<int>{3, 1, 2};
  const SharedList<int> copy = list;
  EXPECT_EQ(copy.data(), list.data());
  EXPECT_EQ(copy.size(), 3U);
  EXPECT_EQ(copy[1], 1);
  EXPECT_EQ(std::vector<int>(copy.begin(), copy.end()), (std::vector<int>{3, 1, 2}));
  EXPECT_EQ(copy, (SharedList<int>{3, 1, 2}));
  EXPECT_FALSE(copy == (SharedList<int>{3, 1}));
}

TEST(SharedList, OfNothingHoldsNothing) {
  const SharedList<int> none, empty = std::vector<int>{};
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none, empty);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(empty.begin(), empty.end());
}

}  // namespace
}  // namespace quire
