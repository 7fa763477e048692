#include "ops/slopes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

using testing::ElementsAre;

std::vector<float> slopes_of(size_t n_heads, float most_bits) {
  std::vector<float> out(n_heads);
  fill_slopes(out, most_bits);
  return out;
}

TEST(Slopes, OfAPowerOfTwoAreEqualStepsOfBits) {
  EXPECT_THAT(slopes_of(1, 8), ElementsAre(1.0F / 256));
  EXPECT_THAT(slopes_of(4, 8), ElementsAre(0.25F, 1.0F / 16, 1.0F / 64, 1.0F / 256));
  EXPECT_THAT(slopes_of(2, 4), ElementsAre(0.25F, 1.0F / 16));
}

TEST(Slopes, HeadsBehindAPowerOfTwoLieBetweenTheFirst) {
  EXPECT_THAT(slopes_of(6, 8), ElementsAre(0.25F, 1.0F / 16, 1.0F / 64, 1.0F / 256, 0.5F, 0.125F));
  EXPECT_THAT(slopes_of(3, 8), ElementsAre(1.0F / 16, 1.0F / 256, 0.25F));
}

}  // namespace
}  // namespace quire
