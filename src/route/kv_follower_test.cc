// A worker's events in order, with gaps, restarts and nonsense between them, without sockets.
#include "route/kv_follower.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "events/kv_encoder.h"

namespace quire {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kAll = KvFollower::kAll;

struct World {
  explicit World(bool may_ask = true) : counters(metrics), follower(index, counters, 1, "w", may_ask) {
    const uint64_t worker = 1;
    index.set_workers(std::span(&worker, 1));
  }
  // Block `n` of a path of blocks of one token.
  static std::string block(int n, bool cleared = false) {
    KvNews news;
    news.all_cleared = cleared;
    news.blocks.push_back(
        {{static_cast<uint64_t>(n) + 1, 1}, n > 0 ? Hash128{static_cast<uint64_t>(n), 1} : Hash128{}, 0, 0, true});
    news.tokens.push_back(n);
    return KvEncoder(1, {1, 2, 3, 4}).encode(news, 1);
  }
  static std::string blocks(int n) {
    KvNews news;
    news.all_cleared = true;
    for (int i = 0; i < n; ++i) {
      news.blocks.push_back(
          {{static_cast<uint64_t>(i) + 1, 1}, i > 0 ? Hash128{static_cast<uint64_t>(i), 1} : Hash128{}, 0, 0, true});
      news.tokens.push_back(i);
    }
    return KvEncoder(1, {1, 2, 3, 4}).encode(news, 1);
  }
  static std::string nothing() {
    KvNews news;
    news.all_cleared = true;
    return KvEncoder(1, {1, 2, 3, 4}).encode(news, 1);
  }
  void hear(uint64_t number, const std::string& payload) {
    follower.hear({"kv@pod@model", sequence_bytes(number), payload}, now);
  }
  void told(uint64_t number, const std::string& payload = "") {
    follower.told({"", sequence_bytes(number), payload}, now);
  }
  int64_t held() {
    std::vector<Token> prompt(100);
    for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<Token>(i);
    const KvIndex::Sought one{1, 0};
    const auto hits = index.find(prompt, std::span(&one, 1), now);
    return hits.empty() ? -1 : hits[0].n_tokens;
  }
  Metrics metrics;
  KvIndex index{1000, 77};
  KvCounters counters;
  KvFollower follower;
  int64_t now = 1000 * kSecond;
};

TEST(KvFollower, BeginsWithAllThatThereIsAndGoesOn) {
  World world;
  EXPECT_EQ(world.held(), -1);
  ASSERT_EQ(world.follower.question(world.now), kAll);
  EXPECT_TRUE(world.follower.asking());
  EXPECT_FALSE(world.follower.question(world.now));
  world.told(7, World::blocks(3));
  EXPECT_EQ(world.held(), -1);  // until the end was told
  world.told(kAll);
  EXPECT_EQ(world.held(), 3);
  // What was published before the answer came is in it.
  world.hear(6, World::block(1));
  world.hear(7, World::block(2));
  world.hear(8, World::block(3));
  EXPECT_EQ(world.held(), 4);
  EXPECT_FALSE(world.follower.question(world.now));
  EXPECT_EQ(world.counters.gaps.value(), 0U);
}

TEST(KvFollower, AProcessIsFollowedFromItsFirstBatchOn) {
  World world(false);
  EXPECT_FALSE(world.follower.question(world.now));
  world.hear(5, World::block(0));
  EXPECT_EQ(world.held(), -1);
  world.hear(0, World::nothing());
  world.hear(1, World::block(0));
  EXPECT_EQ(world.held(), 1);
  // One that clears everything is as good as a first one.
  world.hear(3, World::block(1));
  EXPECT_EQ(world.held(), -1);
  EXPECT_EQ(world.counters.gaps.value(), 1U);
  world.hear(4, World::block(0, true));
  EXPECT_EQ(world.held(), 1);
  world.hear(5, World::block(1));
  EXPECT_EQ(world.held(), 2);
}

TEST(KvFollower, AGapIsFilledByAllThatThereIsOrByWhatIsMissing) {
  World world;
  world.hear(0, World::nothing());
  world.hear(1, World::block(0));
  world.hear(4, World::block(3));
  EXPECT_EQ(world.held(), -1);
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.told(5, World::blocks(5));
  world.told(kAll);
  EXPECT_EQ(world.held(), 5);
  world.hear(5, World::block(4));
  world.hear(6, World::block(5));
  EXPECT_EQ(world.held(), 6);
  // A server of others knows no such question: it says what is missing. Gaps that repeat are not asked about at once.
  world.hear(9, World::block(8));
  EXPECT_FALSE(world.follower.question(world.now));
  world.now += kSecond;
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.told(kAll);
  ASSERT_EQ(world.follower.question(world.now), 7U);
  world.told(7, World::block(6));
  world.told(8, World::block(7));
  world.told(9, World::block(8));
  world.told(kAll);
  EXPECT_EQ(world.held(), 9);
  EXPECT_EQ(world.counters.gaps.value(), 2U);
  EXPECT_EQ(world.counters.dumps.value(), 2U);
  EXPECT_EQ(world.counters.replays.value(), 1U);
}

TEST(KvFollower, WhatCannotBeSaidAgainIsAskedForSeldom) {
  World world;
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.told(kAll);
  ASSERT_EQ(world.follower.question(world.now), 0U);
  world.told(50, World::block(0));  // its first batches are forgotten
  EXPECT_FALSE(world.follower.asking());
  int n_asked = 0;
  for (int i = 0; i < 36'000; ++i) {  // an hour
    world.now += kSecond / 10;
    if (!world.follower.question(world.now)) continue;
    ++n_asked;
    world.follower.give_up(world.now);
  }
  EXPECT_GT(n_asked, 10);
  EXPECT_LT(n_asked, 100);
  EXPECT_EQ(world.held(), -1);
}

TEST(KvFollower, WhoHasPublishedNothingYetHasNothing) {
  World world;
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.told(kAll);
  ASSERT_EQ(world.follower.question(world.now), 0U);
  world.told(kAll);
  EXPECT_TRUE(world.follower.whole());
  EXPECT_EQ(world.held(), -1);  // how large its blocks are is not known
  world.hear(0, World::block(0));
  EXPECT_EQ(world.held(), 1);
}

TEST(KvFollower, NumbersThatBeginAnewAreAnotherProcess) {
  World world;
  world.hear(0, World::nothing());
  for (int i = 0; i < 9; ++i) world.hear(static_cast<uint64_t>(i) + 1, World::block(i));
  EXPECT_EQ(world.held(), 9);
  world.hear(0, World::block(0, true));
  EXPECT_EQ(world.held(), 1);
  world.hear(1, World::block(1));
  EXPECT_EQ(world.held(), 2);
  // Its first ones were missed: it is asked for all.
  world.hear(1, World::block(3));
  EXPECT_EQ(world.held(), -1);
  EXPECT_EQ(world.counters.restarts.value(), 2U);
  world.now += kSecond;
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.told(1, World::blocks(2));
  world.told(kAll);
  EXPECT_EQ(world.held(), 2);
}

// The last batch of all may be lost too, and nothing behind it shows that.
TEST(KvFollower, WhoIsWholeIsAskedForItsLastBatchNowAndThen) {
  World world;
  world.hear(0, World::nothing());
  world.hear(1, World::block(0));
  EXPECT_FALSE(world.follower.question(world.now));
  world.now += 2 * kSecond;
  ASSERT_EQ(world.follower.question(world.now), 1U);
  EXPECT_EQ(world.held(), 1);
  world.told(1, World::block(0));
  world.told(2, World::block(1));
  world.told(kAll);
  EXPECT_EQ(world.held(), 2);
  EXPECT_FALSE(world.follower.question(world.now));
  // It answers nothing: nothing is known against it.
  world.now += 60 * kSecond;
  ASSERT_EQ(world.follower.question(world.now), 2U);
  world.follower.give_up(world.now);
  EXPECT_EQ(world.held(), 2);
  // It has another batch under that number, or none: another process.
  world.now += 60 * kSecond;
  ASSERT_EQ(world.follower.question(world.now), 2U);
  world.told(2, World::block(7));
  EXPECT_EQ(world.held(), -1);
  EXPECT_EQ(world.counters.restarts.value(), 1U);
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.told(1, World::blocks(1));
  world.told(kAll);
  EXPECT_EQ(world.held(), 1);
  world.now += 60 * kSecond;
  ASSERT_EQ(world.follower.question(world.now), 1U);
  world.told(kAll);
  EXPECT_EQ(world.held(), -1);
  world.now += kSecond;
  ASSERT_EQ(world.follower.question(world.now), kAll);
}

TEST(KvFollower, AnAnswerGoesForwardsAndEnds) {
  World world;
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.told(kAll);
  ASSERT_EQ(world.follower.question(world.now), 0U);
  world.told(0, World::block(0));
  world.told(0, World::block(0));  // a number once more
  EXPECT_FALSE(world.follower.asking());
  EXPECT_EQ(world.held(), -1);
  // Of who is whole too, and however long it goes on with nothing new.
  World other;
  other.hear(0, World::nothing());
  other.hear(1, World::block(0));
  other.now += 2 * kSecond;
  ASSERT_EQ(other.follower.question(other.now), 1U);
  other.told(1, World::block(0));
  other.told(1, World::block(0));
  EXPECT_FALSE(other.follower.asking());
  EXPECT_EQ(other.held(), 1);
  other.now += 60 * kSecond;
  ASSERT_EQ(other.follower.question(other.now), 1U);
  for (int i = 0; i <= 1 << 18 && other.follower.asking(); ++i) other.told(0);
  EXPECT_FALSE(other.follower.asking());
}

// What was published before, and cannot be said again, is not nothing.
TEST(KvFollower, WhoWasHeardAndCanSayNothingAgainIsNotKnown) {
  World world;
  world.hear(5, World::block(0));
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.told(kAll);
  ASSERT_EQ(world.follower.question(world.now), 0U);
  world.told(kAll);
  EXPECT_FALSE(world.follower.whole());
  EXPECT_FALSE(world.follower.question(world.now));
}

TEST(KvFollower, OneThatBeginsKnowsNothingOfWhatAnotherKnew) {
  World world;
  world.hear(0, World::nothing());
  EXPECT_TRUE(world.index.state(1).whole);
  const KvFollower next(world.index, world.counters, 1, "w", true);
  EXPECT_FALSE(world.index.state(1).whole);
}

TEST(KvFollower, WhoWasGoneIsNotKnownUntilItIsAskedAnew) {
  World world;
  world.hear(0, World::block(0));
  world.follower.restart(world.now);
  EXPECT_EQ(world.held(), -1);
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.follower.restart(world.now);  // also while it is asked
  EXPECT_FALSE(world.follower.asking());
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.told(0, World::nothing());
  world.told(kAll);
  EXPECT_EQ(world.held(), 0);
}

TEST(KvFollower, NonsenseEndsInNotKnownAndIsAskedForLessAndLessOften) {
  for (const std::string& payload : {std::string("x"), std::string(), World::block(40)}) {
    World world;
    world.hear(0, World::nothing());
    world.hear(1, payload);
    EXPECT_EQ(world.held(), -1);
    EXPECT_EQ(world.counters.bad.value(), 1U);
    EXPECT_FALSE(world.follower.question(world.now));
    world.now += kSecond;
    EXPECT_EQ(world.follower.question(world.now), kAll);
    world.told(1, payload);
    EXPECT_FALSE(world.follower.asking());
    EXPECT_EQ(world.held(), -1);
  }
  World world;
  world.hear(0, World::nothing());
  world.follower.hear({"one frame"}, world.now);
  EXPECT_EQ(world.held(), -1);
  world.follower.hear({"", "12345", ""}, world.now);
  world.follower.hear({}, world.now);
  EXPECT_EQ(world.counters.bad.value(), 3U);
}

TEST(KvFollower, AWorkerThatHasTooMuchIsNotKnown) {
  World world;
  world.index.set_workers(std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  ASSERT_EQ(world.follower.question(world.now), kAll);
  world.told(3, World::blocks(90));
  EXPECT_EQ(world.held(), -1);
  EXPECT_EQ(world.counters.full.value(), 1U);
  EXPECT_EQ(world.index.n_blocks(), 0);
}

// Whatever comes in whatever order, it is either not known or what one list says.
TEST(KvFollower, AnyMessagesInAnyOrderHarmNothing) {
  Rng rng(9);
  World world;
  for (int step = 0; step < 50'000; ++step) {
    world.now += static_cast<int64_t>(rng.bits() % kSecond);
    std::string payload = World::block(static_cast<int>(rng.between(0, 4)), rng.between(0, 9) == 0);
    if (rng.between(0, 9) == 0) payload[rng.bits() % payload.size()] = static_cast<char>(rng.bits());
    const auto number = static_cast<uint64_t>(rng.between(-1, 9));
    (void)world.follower.question(world.now);
    if (!world.follower.asking())
      world.hear(number, payload);
    else if (rng.between(0, 9) == 0)
      world.follower.give_up(world.now);
    else
      world.told(number, rng.between(0, 3) == 0 ? "" : payload);
    ASSERT_LE(world.index.n_blocks(), 1000);
    ASSERT_EQ(world.follower.whole(), world.index.state(1).whole);
  }
}

}  // namespace
}  // namespace quire
