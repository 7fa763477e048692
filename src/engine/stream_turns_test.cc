// --step-target on a scripted machine under a virtual clock: steps stay within it, streams take turns, tenants alike,
// and no answer changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "engine/engine.h"
#include "engine/limits.h"
#include "engine/test_model.h"

namespace quire {
namespace {

constexpr uint64_t kFew = 1, kMany = 2;  // tenants
constexpr double kBaseMs = 2, kRowMs = 0.25, kPromptRowMs = 0.04;

Request request(uint64_t number, uint64_t tenant, int n_prompt = 40, int max_tokens = 1000) {
  Request r;
  r.prompt = random_tokens(number, n_prompt);
  r.max_tokens = max_tokens;
  r.tenant = tenant;
  return r;
}

// An engine whose steps take kBaseMs and a time for each row.
struct World {
  explicit World(double target_ms, EngineOptions options = {}) {
    options.n_ctx = 3000;
    options.prefix_cache = false;
    options.step_target_ms = target_ms;
    t = std::make_unique<TestEngine>(options);
    t->model.on_pass = [this](const Batch& batch) {
      const auto cu_q = batch.attn.cu_q.span<int32_t>();
      double ms = kBaseMs;
      for (size_t s = 0; s + 1 < cu_q.size(); ++s) {
        const int n = cu_q[s + 1] - cu_q[s];
        ms += n == 1 ? kRowMs : kPromptRowMs * n;
      }
      t->clock.advance_ns(static_cast<int64_t>(ms * 1e6));
      steps_ms.push_back(ms);
    };
  }
  void add(uint64_t tenant, int n, int max_tokens = 1000, int weight = 1) {
    for (int i = 0; i < n; ++i) {
      Request r = request(next_++, tenant, 40, max_tokens);
      r.weight = weight;
      heard[tenant].push_back(t->submit(std::move(r)));
    }
  }
  // Until `n` steps more are done, forgetting those before.
  void steps(int n) {
    steps_ms.clear();
    for (int i = 0; i < n; ++i) ASSERT_EQ(t->step(), "");
  }
  std::vector<int> counts(uint64_t tenant) const {
    std::vector<int> out;
    for (const auto& sink : heard.at(tenant)) out.push_back(static_cast<int>(sink->answer.tokens.size()));
    return out;
  }

  std::unique_ptr<TestEngine> t;
  std::vector<double> steps_ms;
  std::map<uint64_t, std::vector<std::shared_ptr<Heard>>> heard;

 private:
  uint64_t next_ = 1;
};

double most(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

TEST(StreamTurns, WithoutATargetAllStreamInEveryStep) {
  World w(0);
  w.add(kMany, 40);
  w.steps(30);
  w.steps(20);
  EXPECT_DOUBLE_EQ(most(w.steps_ms), kBaseMs + 40 * kRowMs);
}

TEST(StreamTurns, StepsStayWithinTheTargetAndUseIt) {
  for (const double target : {4.0, 6.0, 9.0}) {
    World w(target);
    w.add(kMany, 40);
    w.steps(60);
    w.steps(100);
    EXPECT_LE(most(w.steps_ms), target);
    double sum = 0;
    for (const double ms : w.steps_ms) sum += ms;
    EXPECT_GE(sum / 100, 0.85 * target) << "what the target leaves is used";
  }
}

TEST(StreamTurns, EachHasItsTurn) {
  World w(4);
  w.add(kMany, 40);
  w.steps(150);
  const std::vector<int> before = w.counts(kMany);
  w.steps(300);
  std::vector<int> gained = w.counts(kMany);
  for (size_t i = 0; i < gained.size(); ++i) gained[i] -= before[i];
  EXPECT_EQ(gained[0], 300) << "the first streams in every step";
  const auto [least, largest] = std::minmax_element(gained.begin() + 1, gained.end());
  EXPECT_GT(*least, 30);
  EXPECT_LE(*largest - *least, 2) << "the others go around";
}

TEST(StreamTurns, OneAnswerOfATenantStreamsInEveryStepBesideManyOfAnother) {
  World w(4);
  w.add(kMany, 40);
  w.steps(60);
  w.add(kFew, 1);
  w.steps(10);
  const int before = w.counts(kFew)[0];
  w.steps(100);
  EXPECT_EQ(w.counts(kFew)[0] - before, 100);
  EXPECT_LE(most(w.steps_ms), 4);
}

// More tenants than rows: they go around, whatever they have.
TEST(StreamTurns, TenantsAreServedAlike) {
  World w(4);
  w.add(kMany, 30);
  for (uint64_t tenant = 10; tenant < 30; ++tenant) w.add(tenant, 1);
  w.steps(150);
  std::map<uint64_t, int> before;
  for (uint64_t tenant = 10; tenant < 30; ++tenant) before[tenant] = w.counts(tenant)[0];
  const std::vector<int> many_before = w.counts(kMany);
  w.steps(200);
  int least = 1000, largest = 0;
  for (uint64_t tenant = 10; tenant < 30; ++tenant) {
    least = std::min(least, w.counts(tenant)[0] - before[tenant]);
    largest = std::max(largest, w.counts(tenant)[0] - before[tenant]);
  }
  const std::vector<int> many = w.counts(kMany);
  const int gained =
      std::accumulate(many.begin() + 1, many.end(), 0) - std::accumulate(many_before.begin() + 1, many_before.end(), 0);
  EXPECT_EQ(many[0] - many_before[0], 200) << "the first of all";
  EXPECT_GT(least, 40);
  EXPECT_LE(largest - least, 2);
  EXPECT_NEAR(gained, least, 2) << "the other 29 together";
}

TEST(StreamTurns, WeightsCount) {
  World w(4);
  w.add(9, 1);  // the first of all
  w.add(kFew, 30, 1000, 3);
  w.add(kMany, 30);
  w.steps(150);
  const auto total = [&w](uint64_t tenant) {
    const std::vector<int> n = w.counts(tenant);
    return std::accumulate(n.begin(), n.end(), 0);
  };
  const int few = total(kFew), many = total(kMany);
  w.steps(200);
  EXPECT_NEAR(static_cast<double>(total(kFew) - few) / (total(kMany) - many), 3.0, 1.0);
}

// A target that no step meets: two stream, one of which goes around.
TEST(StreamTurns, ATargetThatCannotBeMetStarvesNobody) {
  World w(0.5);
  w.add(kMany, 6, 20);
  ASSERT_EQ(w.t->run(400), "");
  for (const int n : w.counts(kMany)) EXPECT_EQ(n, 20);
  EXPECT_LE(w.steps_ms.size(), 6U * 20 + 60);
  EXPECT_LE(w.steps_ms.back(), kBaseMs + 2 * kRowMs);
}

TEST(StreamTurns, LongPromptsBesideThemHaveHalfOfTheTime) {
  World w(6);
  w.add(kMany, 30, 2000);
  w.steps(60);
  const auto prompt = w.t->submit(request(1000, kFew, 2500, 1));
  w.steps_ms.clear();
  while (!prompt->done() && w.steps_ms.size() < 1000) ASSERT_EQ(w.t->step(), "");
  EXPECT_LE(w.steps_ms.size(), 80U) << "of 2500 tokens, about 40 in a step";
  std::sort(w.steps_ms.begin(), w.steps_ms.end());
  EXPECT_LE(w.steps_ms[w.steps_ms.size() * 9 / 10], 1.05 * 6);
}

TEST(StreamTurns, GuessesHaveWhatIsLeftOfTheTime) {
  EngineOptions options;
  options.max_draft = 4;
  options.proposer = "ngram";
  World w(5, options);
  w.add(kMany, 30);
  w.steps(80);
  w.steps(100);
  EXPECT_LE(most(w.steps_ms), 1.1 * 5);
}

TEST(StreamTurns, NoAnswerChanges) {
  World w(3);
  for (uint64_t tenant : {kFew, kMany}) w.add(tenant, 12, 30);
  ASSERT_EQ(w.t->run(2000), "");
  uint64_t number = 1;
  for (const uint64_t tenant : {kFew, kMany}) {
    for (const auto& sink : w.heard[tenant]) EXPECT_EQ(sink->answer, alone(request(number++, tenant, 40, 30), 3000));
  }
}

TEST(StreamTurns, WhatIsNoTargetIsRefused) {
  EngineOptions options;
  options.n_ctx = 100;
  options.step_target_ms = -1;
  EXPECT_EQ(check_options(options, 16).error().message, "step_target_ms must be 0 to 60000, got -1.000000");
}

}  // namespace
}  // namespace quire
