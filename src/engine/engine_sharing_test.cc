// Who shares blocks with whom: answers to one prompt, and tenants under what is public. Blocks have 16 tokens.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace quire {
namespace {

constexpr int kCtx = 200;

EngineOptions options() {
  EngineOptions out;
  out.n_ctx = kCtx;
  return out;
}

Request one_prompt() {
  Request out;
  out.prompt = random_tokens(1000, 120);
  out.max_tokens = 20;
  out.sampling.temperature = 0.8F;
  return out;
}

// n answers to one prompt of 70 tokens: its four whole blocks are there once, what follows is each one's own.
TEST(EngineSharing, ChoicesShareTheBlocksOfTheirPrompt) {
  TestEngine t(options());
  std::vector<std::shared_ptr<Heard>> choices;
  const auto choice = [](uint64_t seed) {
    Request r;
    r.prompt = random_tokens(9, 70);
    r.sampling.temperature = 0.8F;
    r.sampling.seed = seed;
    r.max_tokens = 8;
    return r;
  };
  constexpr uint64_t kChoices = 4;
  choices.reserve(kChoices);
  for (uint64_t i = 0; i < kChoices; ++i) choices.push_back(t.submit(choice(i)));
  const auto held = [&] { return t.engine->snapshot().n_held_blocks; };
  EXPECT_EQ(t.step(), "");
  EXPECT_EQ(held(), 5) << "the first computes, the others wait and hold nothing";
  EXPECT_EQ(t.step(), "");
  EXPECT_EQ(held(), 4 + 4);
  t.engine->cancel(choices[2]->seq);
  EXPECT_EQ(t.step(), "");
  EXPECT_EQ(held(), 4 + 3);
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(t.engine->stats().n_cached_blocks, 4);
  const EngineStats stats = t.engine->stats();
  EXPECT_EQ(stats.spent.n_reused, 3 * 69) << "of the prompt each computes its last token";
  EXPECT_EQ(stats.spent.computed[static_cast<size_t>(Cause::recomputed)], 0);
  for (uint64_t i = 0; i < kChoices; ++i) {
    if (i == 2) continue;  // cancelled
    EXPECT_EQ(choices[i]->answer, alone(choice(i), kCtx));
  }
}

// An operator's text of 70 tokens, then a user's of 50: two tenants share the whole blocks of the first (16 tokens
// each), and each finds all of its own again.
TEST(EngineSharing, WhatIsPublicIsSharedAcrossSaltsAndTheRestIsNot) {
  TestEngine t(options());
  const struct {
    uint64_t salt;
    int n_public, n_cached;
  } turns[] = {{1, 70, 0}, {2, 70, 64},  {1, 70, 119},  {2, 70, 119},
               {3, 0, 0},  {4, 120, 64}, {5, 120, 112}, {0, 0, 112}};
  std::shared_ptr<Heard> first;
  for (const auto& turn : turns) {
    Request r = one_prompt();
    r.cache_salt = turn.salt;
    r.n_public = turn.n_public;
    const auto heard = t.submit(std::move(r));
    EXPECT_EQ(t.run(), "");
    EXPECT_EQ(heard->usage.n_cached, turn.n_cached) << "salt " << turn.salt;
    if (first == nullptr) first = heard;
    EXPECT_EQ(heard->answer, first->answer);
  }
  for (const int wrong : {-1, 121}) {
    Request r = one_prompt();
    r.n_public = wrong;
    const auto id = t.engine->submit(std::move(r), std::make_shared<Heard>());
    ASSERT_FALSE(id);
    EXPECT_NE(id.error().message.find("n_public must be 0 to the prompt's 120 tokens"), std::string::npos);
  }
}

// What others have within a block is not told, though they are computing it just now.
TEST(EngineSharing, AFollowerOfAnotherTenantTakesWholeBlocksAlone) {
  for (const uint64_t tenant : {1, 2}) {
    TestEngine t(options());
    Request first = one_prompt(), second = one_prompt();
    first.tenant = 1;
    second.tenant = tenant;
    const auto one = t.submit(std::move(first)), other = t.submit(std::move(second));
    EXPECT_EQ(t.run(), "");
    EXPECT_EQ(other->usage.n_cached, tenant == 1 ? 119 : 112);
    EXPECT_EQ(other->answer, one->answer);
  }
}

}  // namespace
}  // namespace quire
