// Wishes of requests for how long their past is to stay: they hold under pressure, end in time, are each tenant's share
// at most, are in a recording, and change no answer.
#include <gtest/gtest.h>

#include "engine/limits.h"
#include "engine/test_model.h"

namespace quire {
namespace {

constexpr int kCtx = 200, kBlocks = 40;
constexpr int64_t kSecond = 1'000'000'000;

EngineOptions options() {
  EngineOptions out;
  out.n_ctx = kCtx;
  return out;
}

Request request(uint64_t seed, int n_prompt, uint64_t tenant = 0) {
  Request out;
  out.prompt = random_tokens(seed, n_prompt);
  out.max_tokens = 12;
  out.sampling.seed = seed;
  out.tenant = tenant;
  return out;
}

Request kept(uint64_t seed, int n_prompt, int64_t seconds = 60, uint64_t tenant = 0) {
  Request out = request(seed, n_prompt, tenant);
  out.retention = {{0, n_prompt, 80, seconds * kSecond}};
  return out;
}

std::shared_ptr<Heard> ask(TestEngine& t, Request r) {
  const auto heard = t.submit(std::move(r));
  EXPECT_EQ(t.run(), "");
  return heard;
}

void flood(TestEngine& t, uint64_t tenant = 9) {
  for (uint64_t i = 0; i < 30; ++i)
    EXPECT_EQ(ask(t, request(1000 + i, 150, tenant))->answer, alone(request(1000 + i, 150), kCtx));
}

int n_cached(TestEngine& t, uint64_t seed, int n_prompt) { return ask(t, request(seed, n_prompt))->usage.n_cached; }

TEST(EngineRetention, APromptOutlivesAFloodForItsTime) {
  TestEngine t(options(), kBlocks);
  EXPECT_EQ(ask(t, kept(1, 81))->answer, alone(request(1, 81), kCtx));
  ask(t, request(2, 100));
  EXPECT_EQ(t.engine->stats().n_retained_blocks, 5) << "whole blocks that are computed";
  flood(t);
  EXPECT_EQ(n_cached(t, 1, 81), 80);
  EXPECT_EQ(n_cached(t, 2, 100), 0);
  t.clock.advance_ns(62 * kSecond);
  flood(t);
  EXPECT_EQ(t.engine->stats().n_retained_blocks, 0);
  EXPECT_EQ(n_cached(t, 1, 81), 0);
}

TEST(EngineRetention, ATenantHasAnEighthOfTheCacheAndAllAQuarter) {
  TestEngine t(options(), kBlocks);
  EXPECT_EQ(t.engine->stats().most_retained_blocks, kBlocks / 4);
  for (uint64_t i = 1; i <= 4; ++i) ask(t, kept(i, 100, 3600, 5));
  EXPECT_EQ(t.engine->stats().n_retained_blocks, 5);
  EXPECT_GT(t.engine->stats().n_unretained_blocks, 0);
  for (uint64_t i = 11; i <= 14; ++i) ask(t, kept(i, 100, 3600, 6));
  for (uint64_t i = 21; i <= 24; ++i) ask(t, kept(i, 100, 3600, 7));
  EXPECT_EQ(t.engine->stats().n_retained_blocks, 10);
  flood(t, 8);
}

TEST(EngineRetention, OfWhomWasCancelledNothingStays) {
  TestEngine t(options(), kBlocks);
  const auto heard = t.submit(kept(1, 100));
  ASSERT_EQ(t.step(), "");
  t.engine->cancel(heard->seq);
  ASSERT_EQ(t.run(), "");
  EXPECT_EQ(t.engine->stats().n_retained_blocks, 0);
}

TEST(EngineRetention, AShareIsFromNoneToAll) {
  EngineOptions o = options();
  o.retain_share = 1.5;
  const Status checked = check_options(o, kStripTokens);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, "retain_share must be 0 to 1, got 1.500000");
  o.retain_share = 0;
  EXPECT_TRUE(check_options(o, kStripTokens));
  EXPECT_EQ(limit_retention(o, {.n_blocks = 10}).n_blocks, 0);
}

TEST(EngineRetention, RefusalsNameLimitAndValue) {
  TestEngine t(options(), kBlocks);
  const auto error = [&](const RetentionRange& range, size_t n = 1) {
    Request r = request(1, 50);
    r.retention.assign(n, range);
    const auto id = t.engine->submit(std::move(r), std::make_shared<Heard>());
    return id ? "" : id.error().message;
  };
  EXPECT_EQ(error({0, 5, 101}), "retention: priority must be 0 to 100, got 101");
  EXPECT_EQ(error({0, 5, 50, 0}), "retention: nanoseconds must be 1 to 86400000000000, got 0");
  EXPECT_EQ(error({5, 5, 50}), "retention: a range begins at 5 and ends at 5; it has at least one token from 0 on");
  EXPECT_EQ(error({0, 5, 50}, 65), "retention: ranges must be 0 to 64, got 65");
}

}  // namespace
}  // namespace quire
