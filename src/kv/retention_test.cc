// Beginnings that are to stay for longer: they outlive a flood under every policy, end in time, and never take more
// than their bound from anybody.
#include "kv/retention.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kv/kv_cache.h"

namespace quire {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kBlocks = 40;

struct Knobs {
  std::string policy = "lru";
  RetentionLimits limits{10, 5};
  int window = 0;  // blocks
  int block_tokens = 1;
};

// A cache of blocks, of one token unless said otherwise, that is asked for pasts, each of a tenant.
class Retaining {
 public:
  explicit Retaining(const Knobs& knobs = {}) {
    KvCacheOptions options;
    options.block_tokens = knobs.block_tokens;
    options.n_blocks = kBlocks;
    options.policy = knobs.policy;
    options.retention = knobs.limits;
    KvLayout layout;
    std::vector<Buffer> memory(1);
    if (knobs.window > 0) {
      layout.claim(KvGroup{}, 8);
      layout.claim(KvGroup{KvGroup::Kind::window, knobs.window}, 8);
      memory.clear();
      for (const int n : {kBlocks, kWindowBlocks}) memory.push_back(std::move(*Buffer::allocate(8 * n)));
      options.n_window_blocks = kWindowBlocks;
    }
    cache_ = std::make_unique<KvCache>(layout, std::move(memory), options);
  }
  static constexpr int kWindowBlocks = 20;

  // Computes what is not there.
  void ask(uint64_t whose, const std::vector<Token>& path) {
    SeqKv seq;
    const std::vector<Token> tokens = with_last(path);
    const Prefix prefix{tokens, {}, {}, 0, whose};
    cache_->match(seq, prefix);
    const auto n = static_cast<int>(path.size());
    QR_CHECK(cache_->grow(seq, n));
    cache_->index(seq, prefix, n);
    cache_->slide(seq, n);
    cache_->release(seq);
    ASSERT_EQ(cache_->check(), "");
  }
  int retain(uint64_t whose, const std::vector<Token>& path, const std::vector<RetentionRange>& ranges) {
    const int out = cache_->retain({path, {}, {}, 0, whose}, ranges);
    EXPECT_EQ(cache_->check(), "");
    return out;
  }
  void flood(int n, uint64_t whose = 99) {
    for (int i = 0; i < n; ++i) ask(whose, {next_, next_ + 1}), next_ += 2;
  }
  int has(const std::vector<Token>& path) const {
    const std::vector<Token> tokens = with_last(path);
    return cache_->peek({tokens, {}, {}});
  }
  void at(int64_t seconds) {
    cache_->tell_time(seconds * kSecond);
    EXPECT_EQ(cache_->check(), "");
  }
  int n_retained() const { return cache_->n_retained_blocks(); }

 private:
  static std::vector<Token> with_last(std::vector<Token> path) {
    path.push_back(0);  // the last token is never found
    return path;
  }
  std::unique_ptr<KvCache> cache_;
  Token next_ = 1000;
};

std::vector<RetentionRange> whole(int n, int priority, int64_t seconds) {
  return {{0, n, priority, seconds * kSecond}};
}
std::vector<std::string> policies() { return Registry<KvPolicyEntry>::get().names(); }

TEST(Retention, OutlivesAFloodUnderEveryPolicyAndWithoutItDoesNot) {
  for (const std::string& policy : policies()) {
    SCOPED_TRACE(policy);
    Retaining c({.policy = policy});
    c.ask(1, {1, 2, 3, 4});
    c.ask(1, {11, 12, 13, 14});
    EXPECT_EQ(c.retain(1, {1, 2, 3, 4}, whole(4, 80, 60)), 0);
    c.flood(500);
    EXPECT_EQ(c.has({1, 2, 3, 4}), 4);
    EXPECT_EQ(c.has({11, 12, 13, 14}), 0);
  }
}

TEST(Retention, OfWholeBlocksAlone) {
  Retaining c({.block_tokens = 4});
  c.ask(1, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(c.retain(1, {1, 2, 3, 4, 5, 6}, whole(6, 80, 60)), 0);
  EXPECT_EQ(c.n_retained(), 1);
  EXPECT_EQ(c.retain(1, {1, 2, 3}, whole(3, 80, 60)), 0);
  EXPECT_EQ(c.retain(1, {1, 2, 3, 4}, whole(std::numeric_limits<int32_t>::max(), 80, 60)), 0);
  EXPECT_EQ(c.n_retained(), 1);
}

TEST(Retention, OfAWindowToo) {
  Retaining c({.limits = {10, 10}, .window = 3});
  c.ask(1, {1, 2, 3, 4, 5, 6});
  c.ask(1, {11, 12, 13, 14, 15, 16});
  EXPECT_EQ(c.retain(1, {1, 2, 3, 4, 5, 6}, whole(6, 80, 60)), 0);
  c.flood(300);
  EXPECT_EQ(c.has({1, 2, 3, 4, 5, 6}), 6);
  EXPECT_EQ(c.has({11, 12, 13, 14, 15, 16}), 0);
}

// All of memory is there for whoever runs, whatever is to stay.
TEST(Retention, HoldsNothing) {
  for (const std::string& policy : policies()) {
    Retaining c({.policy = policy, .limits = {kBlocks, kBlocks}});
    std::vector<Token> path;
    for (Token t = 1; t <= kBlocks; ++t) path.push_back(t);
    c.ask(1, path);
    EXPECT_EQ(c.retain(1, path, whole(kBlocks, 100, 60)), 0);
    EXPECT_EQ(c.n_retained(), kBlocks);
    for (Token& t : path) t += 100;
    c.ask(2, path);
    EXPECT_EQ(c.has(path), kBlocks);
    EXPECT_EQ(c.n_retained(), 0);
  }
}

TEST(Retention, EndsWithinASecondOfItsTime) {
  for (const std::string& policy : policies()) {
    Retaining c({.policy = policy});
    c.at(100);
    c.ask(1, {1, 2, 3});
    c.retain(1, {1, 2, 3}, whole(3, 80, 60));
    c.at(159);
    c.flood(200);
    EXPECT_EQ(c.has({1, 2, 3}), 3) << policy;
    c.at(161);
    EXPECT_EQ(c.n_retained(), 0);
    c.flood(200);
    EXPECT_EQ(c.has({1, 2, 3}), 0) << policy;
  }
}

TEST(Retention, TheHigherPriorityStaysLongerAndTheLowestGoesFirst) {
  for (const std::string& policy : policies()) {
    SCOPED_TRACE(policy);
    Retaining c({.policy = policy, .limits = {30, 30}});
    c.ask(1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
    c.ask(1, {21, 22, 23, 24, 25, 26, 27, 28, 29, 30});
    c.ask(1, {41, 42, 43});
    c.retain(1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, whole(10, 90, 60));
    c.retain(1, {21, 22, 23, 24, 25, 26, 27, 28, 29, 30}, whole(10, 50, 60));
    EXPECT_EQ(c.retain(1, {41, 42, 43}, whole(3, 0, 60)), 0);
    std::vector<Token> path;
    for (Token t = 100; t < 118; ++t) path.push_back(t);
    c.ask(2, path);
    EXPECT_EQ(c.has({41, 42, 43}), 2) << "one block was missing";
    for (Token t = 118; t < 125; ++t) path.push_back(t);
    c.ask(2, path);
    EXPECT_EQ(c.has({41, 42, 43}), 0);
    EXPECT_EQ(c.has({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), 10);
    EXPECT_EQ(c.has({21, 22, 23, 24, 25, 26, 27, 28, 29, 30}), 5);
  }
}

TEST(Retention, ATenantsWishesEndAtItsShareAndAtThatOfAll) {
  Retaining c({.limits = {8, 5}});
  c.ask(1, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(c.retain(1, {1, 2, 3, 4, 5, 6, 7}, whole(7, 80, 60)), 2) << "the beginning stays, which the rest needs";
  EXPECT_EQ(c.n_retained(), 5);
  c.ask(2, {11, 12, 13, 14, 15});
  EXPECT_EQ(c.retain(2, {11, 12, 13, 14, 15}, whole(5, 100, 60)), 2) << "three were left of all";
  EXPECT_EQ(c.retain(1, {1, 2, 3, 4, 5, 6, 7}, whole(5, 80, 90)), 0) << "what it has is renewed";
  c.flood(300);
  EXPECT_EQ(c.has({1, 2, 3, 4, 5, 6, 7}), 5);
  EXPECT_EQ(c.has({11, 12, 13, 14, 15}), 3);
  EXPECT_EQ(c.n_retained(), 8);
}

// However much one tenant retains, all but its share caches what another asks for.
TEST(Retention, ATenantCannotPushOutAnothers) {
  for (const std::string& policy : policies()) {
    Retaining c({.policy = policy, .limits = {10, 5}});
    for (Token i = 0; i < 100; ++i) {
      c.ask(1, {500 + 2 * i, 501 + 2 * i});
      c.retain(1, {500 + 2 * i, 501 + 2 * i}, whole(2, 100, 3600));
    }
    EXPECT_EQ(c.n_retained(), 5);
    std::vector<Token> path;
    for (Token t = 1; t <= kBlocks - 5; ++t) path.push_back(t);
    c.ask(2, path);
    EXPECT_EQ(c.has(path), kBlocks - 5) << policy;
    EXPECT_EQ(c.n_retained(), 5);
  }
}

// What two tenants share is charged to who wants more of it, and stays for as long as either wishes.
TEST(Retention, OfWhatIsSharedTheLongerWishHolds) {
  Retaining c({.limits = {8, 4}});
  c.at(100);
  c.ask(1, {1, 2, 3});
  EXPECT_EQ(c.retain(1, {1, 2, 3}, whole(3, 80, 60)), 0);
  EXPECT_EQ(c.retain(2, {1, 2, 3}, whole(3, 50, 30)), 0) << "nothing of it is more";
  c.at(131);
  EXPECT_EQ(c.n_retained(), 3);
  EXPECT_EQ(c.retain(2, {1, 2, 3}, whole(3, 50, 300)), 0);
  c.ask(1, {11, 12, 13, 14});
  EXPECT_EQ(c.retain(1, {11, 12, 13, 14}, whole(4, 80, 60)), 0) << "its share is free again";
  EXPECT_EQ(c.n_retained(), 7);
  c.at(200);
  EXPECT_EQ(c.n_retained(), 3);
}

TEST(Retention, NobodyLowersWhatAnotherComputed) {
  Retaining c;
  c.ask(2, {11, 12, 13});
  c.ask(1, {1, 2, 3});
  c.retain(2, {1, 2, 3}, whole(3, 0, 60));
  c.flood(18);
  EXPECT_EQ(c.has({11, 12, 13}), 1) << "the oldest goes first, by the policy";
  EXPECT_EQ(c.has({1, 2, 3}), 3);
  c.retain(1, {1, 2, 3}, whole(3, 0, 60));
  c.flood(1);
  EXPECT_EQ(c.has({11, 12, 13}), 1);
  EXPECT_EQ(c.has({1, 2, 3}), 1) << "its own it may";
}

// A wish for the end of a path is one for all before it, and is counted as such.
TEST(Retention, WhatLiesBeforeARangeStaysWithIt) {
  Retaining c({.limits = {10, 5}});
  c.ask(1, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(c.retain(1, {1, 2, 3, 4, 5, 6}, {{4, 6, 80, 60 * kSecond}}), 1);
  EXPECT_EQ(c.n_retained(), 5);
  c.flood(200);
  EXPECT_EQ(c.has({1, 2, 3, 4, 5, 6}), 5);
}

TEST(Retention, OfABlockTheHighestOfItsRangesAndOfThoseBehindIt) {
  const std::vector<RetentionRange> ranges = {{0, 8, 10, 5}, {8, 16, 60, 7}, {12, 20, 50, 9}, {30, 40, 20, 11}};
  const auto is = [&](int begin, int priority, int64_t until) {
    const BlockWish wish = wish_of(ranges, begin, begin + 4, 100);
    EXPECT_EQ(wish.priority, priority) << begin;
    EXPECT_EQ(priority == kUsualPriority ? 0 : wish.until_ns, until) << begin;
  };
  is(0, 60, 109);
  is(12, 60, 109);
  is(16, 50, 109);
  is(20, kUsualPriority, 0);
  is(28, 20, 111);
  is(40, kUsualPriority, 0);
}

// Random wishes, uses and times under every policy: the books balance and the bounds hold after each.
TEST(Retention, KeepsItsBooksWhateverComes) {
  for (const std::string& policy : policies()) {
    Retaining c({.policy = policy, .limits = {9, 4}, .window = policy == "lru" ? 3 : 0});
    Rng rng(7);
    int64_t now = 1;
    for (int i = 0; i < 3000; ++i) {
      std::vector<Token> path;
      const auto n = static_cast<int>(1 + rng.between(0, 8));
      for (int k = 0; k < n; ++k) path.push_back(static_cast<Token>(rng.between(1, 3)));
      const auto whose = static_cast<uint64_t>(rng.between(1, 3));
      c.ask(whose, path);
      if (rng.between(0, 1) == 0) {
        const auto begin = static_cast<int>(rng.between(0, n - 1));
        c.retain(whose, path, {{begin, n, static_cast<int>(rng.between(0, 100)), rng.between(1, 20) * kSecond}});
      }
      c.at(now += rng.between(0, 2));
      ASSERT_LE(c.n_retained(), 9);
    }
    c.at(now + 30);
    c.at(now + 32);
    EXPECT_EQ(c.n_retained(), 0);
  }
}

}  // namespace
}  // namespace quire
