#include "ops/route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace quire {
namespace {

struct Choice {
  std::vector<int32_t> experts;
  std::vector<float> shares;
};

Choice choose(const std::vector<float>& scores, const Routing& routing, const std::vector<float>& bias = {}) {
  const auto n = static_cast<size_t>(routing.n_used);
  Choice out{std::vector<int32_t>(n), std::vector<float>(n)};
  ExpertRouter(routing, bias).route(scores, out.experts.data(), out.shares.data());
  return out;
}

TEST(Route, LargestFirstAndTiesByNumber) {
  const Choice got = choose({1.0F, 3.0F, 2.0F, 3.0F, 2.0F, -5.0F}, {.n_used = 4});
  EXPECT_EQ(got.experts, (std::vector<int32_t>{1, 3, 2, 4}));
  EXPECT_EQ(got.shares[0], got.shares[1]);
  EXPECT_GT(got.shares[1], got.shares[2]);
}

TEST(Route, SharesAreOfTheChosenOrOfAll) {
  const std::vector<float> scores = {0.0F, std::log(2.0F), std::log(5.0F)};  // masses 1, 2, 5
  const Choice chosen = choose(scores, {.n_used = 2, .normalised = true, .scale = 2.0F});
  EXPECT_FLOAT_EQ(chosen.shares[0], 10.0F / 7);
  EXPECT_FLOAT_EQ(chosen.shares[1], 4.0F / 7);
  const Choice of_all = choose(scores, {.n_used = 2, .normalised = false});
  EXPECT_FLOAT_EQ(of_all.shares[0], 5.0F / 8);
  EXPECT_FLOAT_EQ(of_all.shares[1], 2.0F / 8);
}

TEST(Route, AScoreThatIsNoNumberReachesTheShares) {
  for (const float bad : {NAN, INFINITY}) {
    for (const bool normalised : {true, false}) {
      const Choice got = choose({1.0F, 2.0F, bad, 0.0F}, {.n_used = 2, .normalised = normalised});
      for (const float share : got.shares) EXPECT_TRUE(std::isnan(share));
      for (const int32_t e : got.experts) EXPECT_TRUE(e >= 0 && e < 4) << e;
    }
  }
  const Choice least = choose({-INFINITY, 1.0F, -INFINITY}, {.n_used = 2});
  EXPECT_EQ(least.experts, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(least.shares, (std::vector<float>{1.0F, 0.0F}));
}

TEST(Route, SigmoidsAreSharesOrSums) {
  const std::vector<float> scores = {0.0F, std::log(3.0F), std::log(1.0F / 3)};  // 1/2, 3/4, 1/4
  Routing routing{.scoring = Routing::Scoring::sigmoid, .n_used = 2, .normalised = false, .scale = 2.0F};
  const Choice plain = choose(scores, routing);
  EXPECT_EQ(plain.experts, (std::vector<int32_t>{1, 0}));
  EXPECT_FLOAT_EQ(plain.shares[0], 1.5F);
  EXPECT_FLOAT_EQ(plain.shares[1], 1.0F);
  routing.normalised = true;
  const Choice normalised = choose(scores, routing);
  EXPECT_FLOAT_EQ(normalised.shares[0], 2 * 0.75F / 1.25F);
  EXPECT_FLOAT_EQ(normalised.shares[1], 2 * 0.5F / 1.25F);
}

TEST(Route, ABiasChoosesAndDoesNotWeigh) {
  const std::vector<float> scores = {0.0F, std::log(3.0F), std::log(1.0F / 3)};
  const Routing sigmoid{.scoring = Routing::Scoring::sigmoid, .n_used = 2, .normalised = false};
  const Choice got = choose(scores, sigmoid, {0.0F, -0.4F, 0.3F});  // 0.5, 0.35, 0.55
  EXPECT_EQ(got.experts, (std::vector<int32_t>{2, 0}));
  EXPECT_FLOAT_EQ(got.shares[0], 0.25F);
  EXPECT_FLOAT_EQ(got.shares[1], 0.5F);
  const Choice soft = choose({0.0F, std::log(2.0F), std::log(5.0F)}, {.n_used = 1, .normalised = false},
                             {0.6F, 0.0F, 0.0F});  // 1/8 + 0.6, 2/8, 5/8
  EXPECT_EQ(soft.experts, (std::vector<int32_t>{0}));
  EXPECT_FLOAT_EQ(soft.shares[0], 1.0F / 8);
}

// Of three expert groups of two: {4, 0}, {3, 2}, {1, 2.5}.
TEST(Route, GroupsAreChosenByTheirBestOrTheirTwoBest) {
  const std::vector<float> scores = {4.0F, 0.0F, 3.0F, 2.0F, 1.0F, 2.5F};
  const Choice by_best = choose(scores, {.n_used = 2, .n_expert_groups = 3, .n_expert_groups_used = 1});
  EXPECT_EQ(by_best.experts, (std::vector<int32_t>{0, 1}));
  const Choice two_groups = choose(scores, {.n_used = 3, .n_expert_groups = 3, .n_expert_groups_used = 2});
  EXPECT_EQ(two_groups.experts, (std::vector<int32_t>{0, 2, 3}));
  const Choice by_two = choose(scores, {.scoring = Routing::Scoring::sigmoid,
                                        .n_used = 2,
                                        .n_expert_groups = 3,
                                        .n_expert_groups_used = 1,
                                        .expert_groups_by_two = true});
  EXPECT_EQ(by_two.experts, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(choose({1, 1, 1, 1}, {.n_used = 2, .n_expert_groups = 2, .n_expert_groups_used = 1}).experts,
            (std::vector<int32_t>{0, 1}));
}

// Against a sort of all experts; and rows lie by expert, each expert's in the rows' order.
TEST(Route, GroupsRowsByExpert) {
  Rng rng(5);
  Routes routes;
  for (int round = 0; round < 200; ++round) {
    const auto n = static_cast<int64_t>(rng.between(1, 40));
    const auto n_experts = static_cast<int64_t>(rng.between(1, 20));
    const Routing routing{.n_used = static_cast<int>(rng.between(1, n_experts))};
    std::vector<float> scores(static_cast<size_t>(n * n_experts));
    for (float& s : scores) s = static_cast<float>(rng.between(-3, 3));
    routes.make(Tensor::dense(scores.data(), DType::f32, {n, n_experts}), routing, {});
    std::vector<std::vector<int64_t>> rows(static_cast<size_t>(n_experts));
    std::vector<int64_t> row_at(static_cast<size_t>(n * routing.n_used), -1);
    for (int64_t i = 0; i < n; ++i) {
      std::vector<int64_t> order(static_cast<size_t>(n_experts));
      std::iota(order.begin(), order.end(), 0);
      const float* row = scores.data() + i * n_experts;
      std::sort(order.begin(), order.end(),
                [row](int64_t a, int64_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
      for (int j = 0; j < routing.n_used; ++j) {
        const auto e = static_cast<size_t>(order[static_cast<size_t>(j)]);
        const int64_t place = routes.place(i, j);
        EXPECT_GE(place, routes.begin(e));
        EXPECT_LT(place, routes.begin(e) + routes.count(e));
        EXPECT_EQ(row_at[static_cast<size_t>(place)], -1) << "two in one place";
        row_at[static_cast<size_t>(place)] = i;
      }
    }
    for (size_t e = 0; e < routes.n_experts(); ++e) {
      const auto first = row_at.begin() + routes.begin(e);
      EXPECT_TRUE(std::is_sorted(first, first + routes.count(e)));
    }
  }
}

}  // namespace
}  // namespace quire
