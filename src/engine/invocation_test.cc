// Where an activated adapter begins: against looking at every place.
#include "engine/invocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace quire {
namespace {

using Tokens = std::vector<Token>;

TEST(Invocation, TheLastPlaceCounts) {
  EXPECT_EQ(tokens_before_invocation(Tokens{1, 2, 3, 1, 2, 4}, Tokens{1, 2}), 3);
  EXPECT_EQ(tokens_before_invocation(Tokens{1, 2, 3, 1, 2}, Tokens{1, 2}), 3) << "at the very end";
  EXPECT_EQ(tokens_before_invocation(Tokens{1, 2, 3, 1}, Tokens{1, 2}), 0) << "at the beginning";
  EXPECT_EQ(tokens_before_invocation(Tokens{7, 7, 7}, Tokens{7, 7}), 1) << "places overlap";
  EXPECT_EQ(tokens_before_invocation(Tokens{1, 2, 3, 1}, Tokens{1, 3}), kNotInvoked);
  EXPECT_EQ(tokens_before_invocation(Tokens{1}, Tokens{1, 2}), kNotInvoked) << "longer than the prompt";
  EXPECT_EQ(tokens_before_invocation(Tokens{1, 2}, Tokens{}), 0) << "an adapter without one adds to all";
}

TEST(Invocation, IsWhatLookingAtEveryPlaceFinds) {
  Rng rng(5);
  int n_found = 0;
  for (int i = 0; i < 3000; ++i) {
    Tokens prompt, invocation;
    for (auto n = rng.between(0, 30); n > 0; --n) prompt.push_back(static_cast<Token>(rng.between(0, 1)));
    for (auto n = rng.between(1, 6); n > 0; --n) invocation.push_back(static_cast<Token>(rng.between(0, 1)));
    const auto at = std::ranges::find_end(prompt, invocation);
    const int wanted = at.empty() ? kNotInvoked : static_cast<int>(at.begin() - prompt.begin());
    n_found += at.empty() ? 0 : 1;
    ASSERT_EQ(tokens_before_invocation(prompt, invocation), wanted) << i;
  }
  EXPECT_GT(n_found, 500);
  EXPECT_LT(n_found, 2900);
}

}  // namespace
}  // namespace quire
