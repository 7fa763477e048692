// Layers that see a window: their blocks are few, whatever the length of a sequence, and the answers are the same.
#include <gtest/gtest.h>

#include "engine/test_model.h"
#include "engine/test_proposer.h"

namespace quire {
namespace {

constexpr int kWindow = 100;
constexpr int kChunk = 64;
constexpr int kCtx = 4000;

EngineOptions options(int max_seqs, int n_window_blocks) {
  EngineOptions o;
  o.n_ctx = kCtx;
  o.max_seqs = max_seqs;
  o.step_tokens = o.max_chunk = kChunk;
  o.block_tokens = 16;
  o.n_window_blocks = n_window_blocks;
  return o;
}

const KvGroup kGroup{KvGroup::Kind::window, kWindow};

Request request(uint64_t text, int n_prompt, int max_tokens = 20) {
  Request r;
  r.prompt = random_tokens(text, n_prompt);
  r.max_tokens = max_tokens;
  return r;
}

// Runs a request of 3,000 tokens of prompt and answer, on its own, and finds of the window's blocks the most it held.
int run_long(TestEngine& t) {
  const auto heard = t.submit(request(1, 2500, 500));
  int most = 0;
  do {
    EXPECT_EQ(t.step(), "");
    const Snapshot now = t.engine->snapshot();
    if (!now.seqs.empty()) most = std::max(most, now.seqs[0].n_window_blocks);
  } while (t.busy && !::testing::Test::HasFailure());
  EXPECT_EQ(heard->answer, alone(request(1, 2500, 500), kCtx));
  EXPECT_EQ(t.engine->stats().n_preempted, 0);
  return most;
}

// 3,000 tokens of prompt and answer with as many blocks of the window as a window and a step take: 12 instead of 188.
TEST(EngineWindow, ALongSequenceHoldsAWindowAndAStepAtMost) {
  const auto least = static_cast<int>(kGroup.most_blocks(kChunk, 16));
  ASSERT_EQ(least, 12);
  for (const bool prefix_cache : {true, false}) {
    EngineOptions o = options(1, least);
    o.prefix_cache = prefix_cache;
    TestEngine t(o, 0, nullptr, kWindow);
    EXPECT_EQ(run_long(t), kGroup.most_blocks(1, 16));
    EXPECT_EQ(t.engine->stats().n_window_blocks, least);
  }
}

// What lies before the window is gone from the tree and not missed: the last 100 tokens before a hit are enough.
TEST(EngineWindow, AHitNeedsTheWindowBeforeItsEndAlone) {
  TestEngine t(options(4, 30), 0, nullptr, kWindow);
  (void)t.submit(request(1, 2000, 1));
  ASSERT_EQ(t.run(), "");
  ASSERT_LE(t.engine->stats().n_cached_window_blocks, 30);
  const auto whole = t.submit(request(1, 2010));
  ASSERT_EQ(t.run(), "");
  EXPECT_EQ(whole->usage.n_cached, 2000);
  EXPECT_EQ(whole->answer, alone(request(1, 2010), kCtx));
  // A past that parts far before the end: its window was given up long ago, so it is computed.
  Request parted = request(1, 800);
  parted.prompt.push_back(7);
  const auto early = t.submit(std::move(parted));
  ASSERT_EQ(t.run(), "");
  EXPECT_EQ(early->usage.n_cached, 0);
  parted = request(1, 800);
  parted.prompt.push_back(7);
  EXPECT_EQ(early->answer, alone(parted, kCtx));
}

// Many long prompts push each other's windows out of the tree, not their full blocks; one that comes back computes what
// it must and its nodes have blocks again.
TEST(EngineWindow, WhatWasPushedOutIsComputedAndKnownAgain) {
  TestEngine t(options(2, 30), 0, nullptr, kWindow);
  for (uint64_t text = 1; text <= 6; ++text) (void)t.submit(request(text, 500, 1));
  ASSERT_EQ(t.run(), "");
  const int n_indexed = t.engine->snapshot().n_indexed_blocks;
  const auto again = t.submit(request(1, 500));
  ASSERT_EQ(t.run(), "");
  EXPECT_EQ(again->usage.n_cached, 0);
  EXPECT_EQ(again->answer, alone(request(1, 500), kCtx));
  EXPECT_EQ(t.engine->snapshot().n_indexed_blocks, n_indexed + 1) << "the answer's block alone is new";
  const auto known = t.submit(request(1, 500));
  ASSERT_EQ(t.run(), "");
  EXPECT_EQ(known->usage.n_cached, 496);
  EXPECT_EQ(known->answer, again->answer);
}

// Two that start together on one prompt: the second waits for the first, whose window has left the common past by then.
TEST(EngineWindow, SharedPastsAreComputedOnceOrMadeGood) {
  for (const int n_window_blocks : {12, 20, 60}) {
    TestEngine t(options(4, n_window_blocks), 0, nullptr, kWindow);
    std::vector<std::shared_ptr<Heard>> heard;
    heard.reserve(4);
    for (int i = 0; i < 4; ++i) heard.push_back(t.submit(request(9, 700 + i, 30)));
    ASSERT_EQ(t.run(), "");
    for (int i = 0; i < 4; ++i) EXPECT_EQ(heard[static_cast<size_t>(i)]->answer, alone(request(9, 700 + i, 30), kCtx));
  }
}

constexpr int kKept = 20;  // two blocks

// A sequence of 3,000 tokens goes on holding its first blocks: the test's model reads them at every row.
TEST(EngineWindow, WhatIsKeptStaysWithALongSequence) {
  const KvGroup group{KvGroup::Kind::window, kWindow, kKept};
  const auto least = static_cast<int>(group.most_blocks(kChunk, 16));
  ASSERT_EQ(least, 14);
  for (const bool prefix_cache : {true, false}) {
    EngineOptions o = options(1, least);
    o.prefix_cache = prefix_cache;
    TestEngine t(o, TestSetup{.window = kWindow, .n_kept = kKept});
    EXPECT_EQ(run_long(t), group.most_blocks(1, 16));
  }
}

// With room for three texts and five that want it: they are sent back, find what is kept and their window again or
// compute both, and each answer is the one that it is alone. Drafts, right and wrong ones, go and come on top.
TEST(EngineWindow, WhatIsKeptSurvivesPreemptionAndDrafts) {
  constexpr size_t kAll = 5;
  std::vector<ExpectedAnswer> truth;
  for (uint64_t text = 1; text <= kAll; ++text) truth.push_back(alone(request(text, 350, 150), kCtx));
  for (const bool drafts : {false, true}) {
    EngineOptions o = options(kAll, 80);
    o.max_draft = 3;
    TestSetup setup{.n_blocks = 110, .window = kWindow, .n_kept = kKept};
    if (drafts) {
      setup.proposer = std::make_shared<ScriptedProposer>(
          3, kTestVocab, 7, [&](SeqId id) -> std::span<const Token> { return truth[id - 1].tokens; });
    }
    TestEngine t(o, setup);
    std::vector<std::shared_ptr<Heard>> all;
    for (uint64_t text = 1; text <= kAll; ++text) all.push_back(t.submit(request(text, 350, 150)));
    ASSERT_EQ(t.run(), "");
    for (size_t i = 0; i < kAll; ++i) EXPECT_EQ(all[i]->answer, truth[i]) << i;
    EXPECT_GT(t.engine->stats().n_preempted, 0);
    const int64_t n_drafted = t.engine->stats().spent.computed[static_cast<size_t>(Cause::draft)];
    EXPECT_EQ(n_drafted > 0, drafts);
  }
}

}  // namespace
}  // namespace quire
