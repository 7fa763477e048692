// Engines that share a store which has to be asked what it has: what one computed another finds, no answer changes
// whatever the store says or does not say, and nobody waits for it for long.
#include <gtest/gtest.h>

#include "engine/test_store_tier.h"
#include "engine/test_tiered.h"

namespace quire {
namespace {

constexpr int kCtx = TieredEngine::kCtx;

struct RemoteEngine : TieredEngine {
  explicit RemoteEngine(Store& store, int window = 0)
      : TieredEngine(256, window), tier(std::make_shared<StoreTier>(store)) {
    open(tier);
  }

  std::shared_ptr<StoreTier> tier;
};

Usage run_right(RemoteEngine& e, uint64_t seed, int n_prompt = 200) {
  return run_right(e, [=] { return request_of(seed, n_prompt); })->usage;
}

TEST(EngineRemote, WhatOneEngineComputedAnotherFinds) {
  for (const int window : {0, 40}) {
    Store store;
    RemoteEngine a(store, window), b(store, window);
    EXPECT_EQ(run_right(a, 1).n_cached, 0);
    const Usage found = run_right(b, 1);
    EXPECT_EQ(found.n_cached, 192);
    EXPECT_EQ(found.n_remote, 192);
    EXPECT_EQ(found.n_disk, 0);
    EXPECT_EQ(run_right(b, 1).n_remote, 0) << "it is in memory";
    EXPECT_EQ(b.engine->stats().n_loads, 1);
    EXPECT_EQ(b.engine->stats().n_loaded_tokens, 192);
    EXPECT_EQ(b.engine->stats().tiers.at(0).place, TierPlace::remote);
  }
}

TEST(EngineRemote, OthersGoOnWhileOneWaitsForAnAnswer) {
  Store store;
  RemoteEngine a(store), b(store);
  run_right(a, 1);
  b.tier->at_once = false;
  const auto first = b.submit(request_of(1, 200));
  for (int i = 0; i < 20; ++i) b.step();
  EXPECT_EQ(b.tier->n_asked, 1);
  EXPECT_FALSE(first->done());
  b.tier->at_once = true;
  const auto other = b.submit(request_of(9, 100));
  b.run(*other);
  EXPECT_EQ(other->answer, alone(request_of(9, 100), kCtx));
  b.tier->answer();
  b.run(*first);
  EXPECT_EQ(first->answer, alone(request_of(1, 200), kCtx));
  EXPECT_EQ(first->usage.n_remote, 192);
}

TEST(EngineRemote, AStoreThatDoesNotAnswerIsNotWaitedForLongerThanAnEighthOfComputing) {
  Store store;
  RemoteEngine a(store), b(store);
  run_right(a, 1);
  b.pass_ns = 8'000'000;
  run_right(b, 5);  // what computing takes is known
  b.tier->mood = Mood::silent;
  const int64_t begin_ns = b.clock.now_ns();
  const Usage usage = run_right(b, 1);
  EXPECT_EQ(usage.n_cached, 0);
  EXPECT_LE(usage.first_token_ns, 4 * 8'000'000 * 5 / 4) << "four steps, an eighth of them, and a few looks";
  EXPECT_GT(b.clock.now_ns(), begin_ns);
}

TEST(EngineRemote, OneWhoseAnswerTakesTooLongIsNotAskedAndAFarOneIsNotReadFrom) {
  Store store;
  RemoteEngine a(store), b(store);
  run_right(a, 1);
  run_right(a, 2);
  run_right(a, 3);
  b.pass_ns = 8'000'000;
  run_right(b, 5);
  const int n_asked = b.tier->n_asked;
  b.tier->ask_ns = 8'000'000;
  EXPECT_EQ(run_right(b, 1).n_cached, 0);
  EXPECT_EQ(b.tier->n_asked, n_asked);
  b.tier->ask_ns = 0;
  b.tier->block_ns = 10'000'000;
  EXPECT_EQ(run_right(b, 2).n_cached, 0);
  EXPECT_EQ(b.engine->stats().n_loads_declined, 1);
  b.tier->block_ns = 1000;
  EXPECT_EQ(run_right(b, 3).n_remote, 192);
}

TEST(EngineRemote, AStoreThatPromisesWhatItHasNotOrForgetsChangesNoAnswer) {
  Store store;
  RemoteEngine a(store), b(store);
  run_right(a, 1);
  b.tier->mood = Mood::boastful;
  EXPECT_EQ(run_right(b, 5).n_cached, 0);
  EXPECT_EQ(b.engine->stats().n_loads_lost, 1);
  b.tier->mood = Mood::forgetful;
  EXPECT_EQ(run_right(b, 1).n_cached, 0);
  EXPECT_EQ(b.engine->stats().n_loads_lost, 2);
  // All but the fourth block is there.
  b.tier->mood = Mood::boastful;
  run_right(a, 7);
  const auto tokens = request_of(7, 200).prompt;
  const auto n = std::erase_if(store.blocks, [&](const auto& entry) {
    const std::vector<Token>& of_block = entry.second.spelling.tokens;
    return std::equal(of_block.begin(), of_block.end(), tokens.begin() + 48);
  });
  EXPECT_EQ(n, 1U);
  EXPECT_EQ(run_right(b, 7).n_remote, 48);
}

TEST(EngineRemote, CancellingWhileAnAnswerIsAwaitedLeavesNothingBehind) {
  Store store;
  RemoteEngine a(store), b(store);
  run_right(a, 1);
  b.tier->at_once = false;
  const auto heard = b.submit(request_of(1, 200));
  b.step();
  b.step();
  b.engine->cancel(b.engine->snapshot().seqs.at(0).id);
  b.step();
  EXPECT_EQ(heard->answer.finish, Finish::cancelled);
  EXPECT_EQ(b.engine->stats().n_free_blocks, b.engine->stats().n_blocks);
  b.tier->answer();
  b.tier->at_once = true;
  EXPECT_EQ(run_right(b, 1).n_remote, 192);
}

TEST(EngineRemote, OptionsNameAnAddressAndItsErrors) {
  EngineOptions wanted;
  wanted.kv_remote = "http://h";
  EXPECT_NE(error_of(wanted).find("kv_remote: a remote store is redis://"), std::string::npos) << error_of(wanted);
  wanted.kv_remote = "redis://h";
  wanted.kv_remote_keep_s = 0;
  EXPECT_NE(error_of(wanted).find("kv_remote_keep_s must be 1 to"), std::string::npos) << error_of(wanted);
  wanted.kv_remote_keep_s = 60;
  wanted.prefix_cache = false;
  EXPECT_NE(error_of(wanted).find("kv_remote needs the prefix cache"), std::string::npos) << error_of(wanted);
}

}  // namespace
}  // namespace quire
