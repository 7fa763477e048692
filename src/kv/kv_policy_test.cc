// The policies of eviction: what each is for, shown on a few blocks, and what holds for all of them.
#include "kv/kv_policy.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kv/ghosts.h"
#include "kv/heap_policy.h"
#include "kv/kv_cache.h"

namespace quire {
namespace {

// A cache that is asked for pasts, one after the other. A past is a list of blocks, a block a number.
class Asked {
 public:
  Asked(const std::string& policy, int n_blocks, int block_tokens = 1, PathHasher::Fn hash = nullptr)
      : block_tokens_(block_tokens) {
    KvCacheOptions options;
    options.block_tokens = block_tokens;
    options.n_blocks = n_blocks;
    options.policy = policy;
    options.hash = hash;
    cache_ = std::make_unique<KvCache>(KvLayout{}, std::vector<Buffer>(1), options);
  }

  // How many of its blocks were there; all are now.
  int ask(const std::vector<int>& blocks) {
    const std::vector<Token> tokens = tokens_of(blocks);
    SeqKv seq;
    const int n_found = cache_->match(seq, {tokens, {}, {}}) / block_tokens_;
    const auto n = static_cast<int>(tokens.size()) - 1;
    QR_CHECK(cache_->grow(seq, n));
    cache_->index(seq, {tokens, {}, {}}, n);
    cache_->release(seq);
    EXPECT_EQ(cache_->check(), "");
    return n_found;
  }
  int has(const std::vector<int>& blocks) const {
    const std::vector<Token> tokens = tokens_of(blocks);
    return cache_->peek({tokens, {}, {}}) / block_tokens_;
  }
  KvCache& cache() { return *cache_; }

 private:
  std::vector<Token> tokens_of(const std::vector<int>& blocks) const {
    std::vector<Token> out;
    for (const int block : blocks) out.insert(out.end(), static_cast<size_t>(block_tokens_), block);
    out.push_back(0);  // the last token is never found
    return out;
  }

  int block_tokens_;
  std::unique_ptr<KvCache> cache_;
};

std::vector<std::string> policies() { return Registry<KvPolicyEntry>::get().names(); }

TEST(KvPolicy, LruKeepsWhatWasUsedLast) {
  Asked cache("lru", 4);
  cache.ask({1, 2});
  cache.ask({3});
  cache.ask({4});
  cache.ask({1, 2});
  cache.ask({5});
  EXPECT_EQ(cache.has({3}), 0);
  EXPECT_EQ(cache.has({1, 2}), 2);
  cache.ask({6});
  cache.ask({7});
  EXPECT_EQ(cache.has({1, 2}), 1) << "a path goes from its end";
}

// What has come back before outlives a flood of what comes once, as long as the flood is no multiple of the cache.
TEST(KvPolicy, CostAwareKeepsWhatCameBack) {
  for (const std::string& policy : {std::string("lru"), std::string("cost_aware"), std::string("s3_fifo")}) {
    Asked cache(policy, 20);
    for (int i = 0; i < 30; ++i) cache.ask({1000 + i});  // so that it is known how few come back
    for (int i = 0; i < 10; ++i) cache.ask({1, 2, 3});
    for (int i = 0; i < 25; ++i) cache.ask({2000 + i});
    EXPECT_EQ(cache.has({1, 2, 3}), policy == "lru" ? 0 : 3) << policy;
  }
}

TEST(KvPolicy, CostAwareForgetsWhatCameBackLongAgo) {
  Asked cache("cost_aware", 20);
  for (int i = 0; i < 30; ++i) cache.ask({1000 + i});
  for (int i = 0; i < 10; ++i) cache.ask({1, 2, 3});
  for (int i = 0; i < 400; ++i) cache.ask({2000 + i});
  EXPECT_EQ(cache.has({1, 2, 3}), 0);
}

// Of two leaves that nobody asked for again the one with more tokens before it is dearer.
TEST(KvPolicy, CostAwareKeepsWhatCostsMore) {
  Asked cache("cost_aware", 16, 4096);
  cache.ask({1, 2, 3, 4, 5, 6, 7, 8, 9});  // the last one has 32768 tokens before it
  cache.ask({11});
  for (int i = 0; i < 7; ++i) cache.ask({21 + i});
  EXPECT_EQ(cache.has({11}), 0) << "it came later and costs a third";
  EXPECT_EQ(cache.has({1, 2, 3, 4, 5, 6, 7, 8, 9}), 9);
}

// A block that is gone is remembered by name: who comes back soon is no stranger.
TEST(KvPolicy, CostAwareAndS3FifoKnowWhoComesBack) {
  for (const std::string& policy : {std::string("cost_aware"), std::string("s3_fifo")}) {
    Asked cache(policy, 20);
    for (int i = 0; i < 30; ++i) cache.ask({1000 + i});
    cache.ask({1});
    cache.ask({1});
    for (int i = 0; i < 200 && cache.has({1}) > 0; ++i) cache.ask({2000 + i});
    ASSERT_EQ(cache.has({1}), 0) << policy;
    EXPECT_EQ(cache.ask({1}), 0) << policy;
    for (int i = 0; i < 20; ++i) cache.ask({3000 + i});
    EXPECT_EQ(cache.has({1}), 1) << policy << ": twenty that came once would have taken a stranger's place";
  }
}

TEST(KvPolicy, S3FifoLetsWhatComesOncePassThroughATenth) {
  Asked cache("s3_fifo", 20);
  std::vector<std::vector<int>> wanted;
  for (int i = 0; i < 17; ++i) wanted.push_back({i + 1});
  for (int round = 0; round < 3; ++round) {
    for (const auto& past : wanted) cache.ask(past);
  }
  for (int i = 0; i < 1000; ++i) cache.ask({2000 + i});
  for (const auto& past : wanted) EXPECT_EQ(cache.has(past), 1) << past[0];
}

Hash128 other_hash(const void* data, size_t bytes, uint64_t seed) { return hash128(data, bytes, seed ^ 0x5eed); }

// What is evicted is a function of what was asked for: neither the process's hashes nor addresses have a say.
TEST(KvPolicy, TheSameQuestionsHaveTheSameAnswers) {
  for (const std::string& policy : policies()) {
    Asked one(policy, 40), other(policy, 40, 1, other_hash);
    Rng rng(7);
    std::vector<std::vector<int>> pasts(1);
    int n_found = 0, n_lost = 0;
    for (int i = 0; i < 3000; ++i) {
      std::vector<int> past = pasts[static_cast<size_t>(rng.between(0, static_cast<int64_t>(pasts.size()) - 1))];
      if (past.size() > 12 || rng.between(0, 2) == 0) past.clear();
      past.push_back(static_cast<int>(rng.between(1, 9)));
      const int n_had = one.ask(past);
      ASSERT_EQ(n_had, other.ask(past)) << policy << " " << i;
      n_found += n_had;
      n_lost += static_cast<int>(past.size()) - n_had;
      pasts.push_back(std::move(past));
      if (pasts.size() > 60) pasts.erase(pasts.begin());
    }
    EXPECT_GT(n_found, 1000) << policy;
    EXPECT_GT(n_lost, 1000) << policy;
  }
}

// Who is held is never taken, whatever a policy thinks of it, and everything else can be.
TEST(KvPolicy, WhatIsHeldStays) {
  for (const std::string& policy : policies()) {
    Asked cache(policy, 10);
    const std::vector<Token> tokens = {1, 2, 3, 0};
    cache.ask({1, 2, 3});
    SeqKv held;
    ASSERT_EQ(cache.cache().match(held, {tokens, {}, {}}), 3);
    for (int i = 0; i < 50; ++i) cache.ask({100 + 7 * i, 101 + 7 * i, 102 + 7 * i, 103 + 7 * i, 4, 5, 6});
    EXPECT_EQ(cache.has({1, 2, 3}), 3) << policy;
    EXPECT_EQ(cache.cache().n_cached_blocks() + cache.cache().n_free_blocks(), 7) << policy;
    cache.cache().release(held);
    SeqKv all;
    EXPECT_TRUE(cache.cache().grow(all, 10)) << policy;
    cache.cache().release(all);
  }
}

TEST(Ghosts, RemembersTheLastNamesAndWhatTheyWere) {
  Ghosts ghosts(8);
  for (uint64_t i = 0; i < 8; ++i) ghosts.put({i, i}, static_cast<uint8_t>(i + 1));
  ghosts.put({3, 3}, 77);
  EXPECT_EQ(ghosts.take({3, 3}, 0), 77);
  EXPECT_EQ(ghosts.take({3, 3}, 0), 0) << "taken once";
  EXPECT_EQ(ghosts.take({3, 4}, 9), 9) << "the whole name counts";
  ghosts.put({20, 20}, 1);
  ghosts.put({21, 21}, 1);
  EXPECT_EQ(ghosts.take({0, 0}, 0), 0) << "the first to leave made room";
  EXPECT_EQ(ghosts.take({1, 1}, 0), 2);
}

// All memory is taken when a policy is made, and has a bound for each block: however many leave, nothing is added.
TEST(Ghosts, TakeNothingMoreHoweverManyLeave) {
  const auto held = [] { return static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd); };
  constexpr int kBlocks = 1 << 10;
  int64_t plain = 0;
  for (const std::string policy : {"lru", "cost_aware", "s3_fifo"}) {
    const int64_t before = held();
    Asked cache(policy, kBlocks);
    if (policy == "lru") plain = held() - before;
    EXPECT_LE(held() - before - plain, kPolicyBytes * kBlocks) << policy;
    std::vector<int> past(128);
    int next = 0;
    const auto ask_for = [&](int n_blocks) {
      for (int i = 0; i < n_blocks; i += static_cast<int>(past.size())) {
        for (int& block : past) block = ++next;
        cache.ask(past);
      }
    };
    ask_for(4 * kBlocks);
    const int64_t full = held();
    ask_for(20 * kBlocks);
    EXPECT_LE(held() - full, 16 << 10) << policy;
  }
}

TEST(Ghosts, HasRoomForAsManyAsWereAskedFor) {
  for (const int n : {0, 1, 7, 9, 100, 1000}) {
    Ghosts ghosts(n);
    int n_known = 0;
    for (int i = 0; i < n; ++i) ghosts.put(hash128(&i, sizeof i, 0), 1);
    for (int i = 0; i < n; ++i) n_known += ghosts.take(hash128(&i, sizeof i, 0), 0);
    EXPECT_GE(n_known, n * 7 / 10) << n;
    for (int i = 0; i < 100 * n; ++i) ghosts.put(hash128(&i, sizeof i, 1), 1);
    n_known = 0;
    for (int i = 0; i < 100 * n; ++i) n_known += ghosts.take(hash128(&i, sizeof i, 1), 0);
    EXPECT_LE(n_known, 2 * n + 8) << n;
  }
}

}  // namespace
}  // namespace quire
