#include "base/secure_random.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace quire {
namespace {

TEST(SecureRandom, NumbersDifferAndTheirBitsAreBalanced) {
  std::set<uint64_t> seen;
  int n_ones = 0;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t bits = secure_random_bits();
    seen.insert(bits);
    n_ones += std::popcount(bits);
  }
  EXPECT_EQ(seen.size(), 10'000U);
  EXPECT_NEAR(n_ones, 320'000, 4'000) << "ten standard deviations";
}

}  // namespace
}  // namespace quire
