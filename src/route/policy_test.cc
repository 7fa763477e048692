#include "route/policy.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/rng.h"

namespace quire {
namespace {

const RoutePolicyEntry& policy(std::string_view name) { return *Registry<RoutePolicyEntry>::get().find(name); }

std::vector<WorkerView> workers(std::initializer_list<int64_t> loads) {
  std::vector<WorkerView> out;
  for (const int64_t load : loads) out.push_back({mix64(out.size() + 1), load, load > 0, 0});
  return out;
}

TEST(RoutePolicy, NoneIsGivenMoreWhileItIsOverTheBound) {
  for (const char* name : {"hash", "prefix", "predicted", "least_load"}) {
    Rng rng(7);
    std::vector<WorkerView> views = workers({0, 0, 0, 0, 0});
    for (uint64_t i = 0; i < 4000; ++i) {
      for (WorkerView& v : views) v.hit_tokens = rng.between(0, 3) == 0 ? rng.between(0, 500) : 0;
      views[2].hit_tokens = 1000;  // all would go there
      const int64_t tokens = rng.between(1, 800);
      const LoadBound bound(views, tokens);
      const RouteChoice choice = policy(name).choose(views, {mix64(i % 3), tokens, i});
      const WorkerView& chosen = views[choice.index];
      EXPECT_TRUE(bound.allows(chosen) || (std::string(name) == "prefix" && bound.keeps(chosen))) << name;
      views[choice.index].load_tokens += tokens;
      if (rng.between(0, 1) == 0) {
        auto& done = views[static_cast<size_t>(rng.between(0, 4))];
        done.load_tokens -= std::min<int64_t>(done.load_tokens, rng.between(0, 1200));
      }
    }
  }
}

TEST(RoutePolicy, PrefixGoesToTheLongestHitThenToTheNextThenToTheLeastLoaded) {
  auto views = workers({100, 100, 100, 90});
  views[1].hit_tokens = 50;
  views[2].hit_tokens = 400;
  const auto choose = [&] { return policy("prefix").choose(views, {1, 10, 0}); };
  EXPECT_EQ(choose().index, 2U);
  EXPECT_EQ(choose().reason, "prefix");
  views[2].load_tokens = 10'000;
  EXPECT_EQ(choose().index, 1U);
  EXPECT_EQ(choose().reason, "prefix_full");
  views[1].load_tokens = 10'000;
  EXPECT_EQ(choose().index, 3U);
  views[1].hit_tokens = views[2].hit_tokens = 0;
  EXPECT_EQ(choose().index, 3U);
  EXPECT_EQ(choose().reason, "miss");
}

TEST(RoutePolicy, WhatIsHeldIsWorthAQueueButOfOneRequestMore) {
  auto views = workers({100, 100, 100, 100});
  views[1].load_tokens = 900;
  EXPECT_FALSE(LoadBound(views, 10).allows(views[1]));
  EXPECT_FALSE(LoadBound(views, 10).keeps(views[1]));
  views[1].hit_tokens = 522;  // 900 − 522 is within 1.25 × (1200 + 10) / 4
  EXPECT_TRUE(LoadBound(views, 10).keeps(views[1]));
  views[1].hit_tokens = 521;
  EXPECT_FALSE(LoadBound(views, 10).keeps(views[1]));
  views[1].hit_tokens = 10'000;
  views[1].n_requests = 3;  // of 6 and this one, 1.25 × the mean is 2.2
  EXPECT_TRUE(LoadBound(views, 10).keeps(views[1]));
  views[1].n_requests = 4;  // of 7 and this one, 2.5
  EXPECT_FALSE(LoadBound(views, 10).keeps(views[1]));
}

TEST(RoutePolicy, PrefixTakesABeginningBelowAnEighthForNone) {
  auto views = workers({100, 100, 100, 90});
  views[1].hit_tokens = 50;
  EXPECT_EQ(policy("prefix").choose(views, {1, 10, 0, 400}).index, 1U);
  const RouteChoice other = policy("prefix").choose(views, {1, 10, 0, 401});
  EXPECT_EQ(other.index, 3U);
  EXPECT_EQ(other.reason, "miss");
  // Names of blocks reach no farther than 133,120 tokens.
  views[1].hit_tokens = 16'640;
  EXPECT_EQ(policy("prefix").choose(views, {1, 10, 0, 5'000'000}).index, 1U);
  views[1].hit_tokens = 16'639;
  EXPECT_EQ(policy("prefix").choose(views, {1, 10, 0, 5'000'000}).index, 3U);
}

TEST(RoutePolicy, PredictedLeavesAHolderForAGainOnly) {
  auto views = workers({100, 100, 100, 100});
  const auto choose = [&](int64_t prompt) {
    const RouteChoice choice = policy("predicted").choose(views, {1, 10, 0, prompt});
    return std::pair(choice.index, choice.reason);
  };
  using Chosen = std::pair<size_t, std::string_view>;
  for (WorkerView& w : views) w.token_ns = 1e6;  // a millisecond a token
  views[1].prefill_tokens = 50;
  EXPECT_EQ(choose(100), Chosen(0, "miss"));
  views[1].hit_tokens = 90;
  EXPECT_EQ(choose(100), Chosen(1, "prefix"));  // 60 ms beside 100
  views[1].prefill_tokens = 94;
  EXPECT_EQ(choose(100), Chosen(1, "prefix"));  // 104: the gain is too small
  views[1].prefill_tokens = 200;
  EXPECT_EQ(choose(100), Chosen(0, "sooner"));  // 210
  views[0].token_ns = 3e6;                      // slow is not idle
  views[2].n_decoding = 512;                    // neither is who answers many
  EXPECT_EQ(choose(100), Chosen(3, "sooner"));
  views[2].hit_tokens = 40;
  views[1].load_tokens = 100'000;
  EXPECT_EQ(choose(100).second, "sooner");  // 120 ms at the next holder, 100 elsewhere
  views[2].n_decoding = 0;
  EXPECT_EQ(choose(100), Chosen(2, "prefix_full"));
}

TEST(RoutePolicy, PredictedCountsTokensWhereNobodyWasMeasuredAndTakesOthersSpeedForTheUnknown) {
  auto views = workers({100, 100, 100});
  views[0].prefill_tokens = 500;
  views[0].hit_tokens = 100;
  const auto choose = [&] { return policy("predicted").choose(views, {1, 10, 1, 100}); };
  EXPECT_EQ(choose().index, 1U);
  views[0].prefill_tokens = 100;
  EXPECT_EQ(choose().index, 0U);  // 101 beside 100
  views[0].hit_tokens = views[0].prefill_tokens = 0;
  views[0].token_ns = 1e6;
  views[1].token_ns = 2e6;
  EXPECT_EQ(choose().index, 0U);
  views[0].prefill_tokens = 80;  // 180 ms; 200; 150 as the mean of both
  EXPECT_EQ(choose().index, 2U);
}

TEST(RoutePolicy, AWorkerMoreOrLessMovesOnlyItsOwnKeys) {
  constexpr uint64_t kKeys = 20'000;
  std::vector<WorkerView> ten = workers({0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  std::vector<WorkerView> nine(ten.begin(), ten.end() - 1);
  std::map<uint64_t, int> shares;
  int n_moved = 0;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const uint64_t before = nine[policy("hash").choose(nine, {mix64(key), 1, 0}).index].id;
    const uint64_t after = ten[policy("hash").choose(ten, {mix64(key), 1, 0}).index].id;
    ++shares[after];
    n_moved += before != after;
    EXPECT_TRUE(before == after || after == ten.back().id);
  }
  EXPECT_LE(n_moved, static_cast<int>(2 * kKeys / 10));
  for (const auto& [id, n] : shares) EXPECT_NEAR(n, kKeys / 10, kKeys / 100);
}

TEST(RoutePolicy, TwoChoicesTakesTheLessLoadedOfTwoDifferentOnes) {
  const auto views = workers({1000, 0, 1000, 1000});
  int n_light = 0;
  for (uint64_t turn = 0; turn < 2000; ++turn) n_light += policy("two_choices").choose(views, {5, 1, turn}).index == 1;
  EXPECT_NEAR(n_light, 1000, 100);  // one of the two in half of the draws
  EXPECT_EQ(policy("two_choices").choose(workers({7}), {5, 1, 3}).index, 0U);
}

TEST(RoutePolicy, RoundRobinTakesTurnsAndEqualsAreShared) {
  const auto views = workers({0, 0, 0});
  for (uint64_t turn = 0; turn < 9; ++turn) {
    EXPECT_EQ(policy("round_robin").choose(views, {5, 1, turn}).index, turn % 3);
    EXPECT_EQ(policy("least_load").choose(views, {5, 1, turn}).index, turn % 3);
  }
}

TEST(RoutePolicy, EveryOneIsAPureFunction) {
  const auto views = workers({4, 9, 2, 2});
  for (const std::string& name : Registry<RoutePolicyEntry>::get().names())
    for (uint64_t turn = 0; turn < 50; ++turn) {
      const RouteQuery query{mix64(turn), 10, turn};
      const RouteChoice once = policy(name).choose(views, query), again = policy(name).choose(views, query);
      EXPECT_LT(once.index, views.size()) << name;
      EXPECT_EQ(once.index, again.index) << name;
      EXPECT_EQ(once.reason, again.reason) << name;
    }
}

}  // namespace
}  // namespace quire
