#include "base/size_text.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(SizeText, HasThreeUnits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(999), "999 B");
  EXPECT_EQ(size_text(1500), "1.5 kB");
  EXPECT_EQ(size_text(2'300'000), "2.3 MB");
  EXPECT_EQ(size_text(7'010'000'000), "7.01 GB");
}

}  // namespace
}  // namespace quire
