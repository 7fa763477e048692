// Blocks dropped from the middle of a past: what the sequence keeps, what stays findable, what it takes, and how its
// table counts tokens from then on.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "kv/kv_cache.h"
#include "kv/kv_image.h"

namespace quire {
namespace {

constexpr int kBlock = 4;
constexpr int64_t kTokenBytes = 8;

struct World {
  explicit World(int n_blocks = 16, bool prefix_cache = true) {
    KvLayout layout;
    layout.claim(KvGroup{}, kTokenBytes);
    std::vector<Buffer> memory;
    memory.push_back(std::move(*Buffer::allocate(layout.block_bytes(0, kBlock) * n_blocks)));
    cache = std::make_unique<KvCache>(
        layout, std::move(memory),
        KvCacheOptions{.block_tokens = kBlock, .n_blocks = n_blocks, .prefix_cache = prefix_cache});
    std::iota(tokens.begin(), tokens.end(), 100);
  }
  Prefix prefix(int n) const {
    Prefix out;
    out.tokens = std::span(tokens).first(static_cast<size_t>(n));
    return out;
  }
  // Each block holds its number in the past.
  void compute(SeqKv& seq, int n) const {
    const auto before = seq.table.size();
    ASSERT_TRUE(cache->grow(seq, n));
    for (size_t b = before; b < seq.table.size(); ++b) at(seq, b) = static_cast<int>(b);
    cache->index(seq, prefix(n), n);
  }
  int& at(const SeqKv& seq, size_t b) const {
    return *reinterpret_cast<int*>(cache->view().groups[0].block(seq.table[b][0].id()));
  }
  std::vector<int> held(const SeqKv& seq) const {
    std::vector<int> out;
    for (size_t b = 0; b < seq.table.size(); ++b) out.push_back(at(seq, b));
    return out;
  }
  int n_usable() const { return cache->n_free_blocks() + cache->n_cached_blocks(); }
  std::vector<Token> tokens = std::vector<Token>(64);
  std::unique_ptr<KvCache> cache;
};

using Held = std::vector<int>;
constexpr int32_t kSome[] = {0, 2, 5};

TEST(KvDrop, KeepsWhatWasChosenAndGivesTheRestBack) {
  const World w;
  SeqKv seq;
  w.compute(seq, 22);  // 6 blocks, the last not full
  EXPECT_EQ(w.n_usable(), 10);
  ASSERT_TRUE(w.cache->drop_blocks(seq, kSome));
  EXPECT_EQ(w.held(seq), (Held{0, 2, 5}));
  EXPECT_EQ(seq.n_dropped, 12);
  EXPECT_EQ(w.n_usable(), 13);
  EXPECT_EQ(w.cache->check(), "");
  EXPECT_TRUE(w.cache->exclusive(seq, 22, 24)) << "it writes on where it was";
}

TEST(KvDrop, WhatWasFindableStaysSo) {
  const World w;
  SeqKv seq;
  w.compute(seq, 22);
  ASSERT_TRUE(w.cache->drop_blocks(seq, kSome));
  EXPECT_EQ(w.cache->peek(w.prefix(23)), 20);
  // All of it may go, and none of the sequence's with it: whoever holds a block of the tree holds those before it.
  SeqKv other;
  ASSERT_TRUE(w.cache->grow(other, 13 * kBlock));
  EXPECT_EQ(w.cache->peek(w.prefix(23)), 4) << "the first is held";
  EXPECT_EQ(w.held(seq), (Held{0, 2, 5}));
  EXPECT_EQ(w.cache->check(), "");
}

TEST(KvDrop, GoesOnBehindTheGap) {
  const World w;
  SeqKv seq;
  w.compute(seq, 22);
  ASSERT_TRUE(w.cache->drop_blocks(seq, kSome));
  ASSERT_TRUE(w.cache->grow(seq, 30));
  EXPECT_EQ(seq.table.size(), 5U) << "18 tokens are left";
  EXPECT_TRUE(w.cache->exclusive(seq, 22, 30));
  EXPECT_EQ(w.cache->index(seq, w.prefix(30), 30), 0);
  EXPECT_EQ(w.cache->peek(w.prefix(31)), 20) << "nothing behind the gap is found";
  w.cache->truncate(seq, 23);
  EXPECT_EQ(seq.table.size(), 3U);
  EXPECT_EQ(w.cache->to_take(seq, 0, 30, 8), 2);
}

TEST(KvDrop, BranchesAndCopiesStopBehindTheGap) {
  const World w;
  SeqKv seq, other;
  w.compute(seq, 22);
  ASSERT_TRUE(w.cache->drop_blocks(seq, kSome));
  KvBranch branch;
  EXPECT_FALSE(w.cache->branch(branch, seq, {22, 23, 25, 0}));
  EXPECT_FALSE(w.cache->copy_next_block(other, seq));
}

TEST(KvDrop, WithoutRoomForCopiesNothingChanges) {
  const World w(7);
  SeqKv seq, other;
  w.compute(seq, 22);
  ASSERT_TRUE(w.cache->grow(other, 4));
  EXPECT_FALSE(w.cache->drop_blocks(seq, kSome)) << "block 2 is the tree's too";
  EXPECT_EQ(w.held(seq), (Held{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(seq.n_dropped, 0);
  w.cache->release(other);
  EXPECT_TRUE(w.cache->drop_blocks(seq, kSome));
}

TEST(KvDrop, RoomForCopiesCountsUntilItIsTaken) {
  const World w(10);
  SeqKv seq;
  seq.n_copies = 3;
  EXPECT_TRUE(w.cache->shortage(seq, {29, 8, 0}));
  EXPECT_FALSE(w.cache->shortage(seq, {28, 8, 0})) << "7 blocks and 3 copies";
  w.compute(seq, 22);
  ASSERT_TRUE(w.cache->drop_blocks(seq, kSome));
  EXPECT_EQ(seq.n_copies, 0);
}

TEST(KvDrop, WhatNobodyElseHoldsIsNotCopied) {
  const World w(6, false);
  SeqKv seq;
  w.compute(seq, 22);
  ASSERT_TRUE(w.cache->drop_blocks(seq, kSome)) << "though no block is free";
  EXPECT_EQ(w.held(seq), (Held{0, 2, 5}));
  EXPECT_EQ(w.cache->n_free_blocks(), 3);
}

TEST(KvDrop, LeadingBlocksStayShared) {
  const World w;
  SeqKv seq, other;
  w.compute(seq, 24);
  EXPECT_EQ(w.cache->match(other, w.prefix(22)), 20);
  w.compute(other, 22);
  constexpr int32_t kLead[] = {0, 1, 4, 5};
  ASSERT_TRUE(w.cache->drop_blocks(other, kLead));
  EXPECT_EQ(w.held(other), (Held{0, 1, 4, 5}));
  EXPECT_EQ(other.table[1][0].id(), seq.table[1][0].id());
  EXPECT_NE(other.table[2][0].id(), seq.table[4][0].id());
  EXPECT_EQ(w.held(seq), (Held{0, 1, 2, 3, 4, 5}));
}

TEST(KvDrop, AnImageHasWhatIsLeft) {
  const World w;
  SeqKv seq;
  w.compute(seq, 22);
  EXPECT_FALSE(w.cache->parts_with_past(seq, 22));
  ASSERT_TRUE(w.cache->drop_blocks(seq, kSome));
  ASSERT_TRUE(w.cache->grow(seq, 26));
  w.at(seq, 3) = 6;
  EXPECT_TRUE(w.cache->parts_with_past(seq, 26));
  const auto image = w.cache->copy_out(seq, 26);
  ASSERT_TRUE(image);
  EXPECT_EQ(image->n_bytes, 4 * kBlock * kTokenBytes);
  w.cache->release(seq);
  EXPECT_EQ(seq.n_dropped, 0);
  ASSERT_TRUE(w.cache->put_back(seq, *image));
  EXPECT_EQ(w.held(seq), (Held{0, 2, 5, 6}));
  EXPECT_EQ(seq.n_dropped, 12);
  EXPECT_TRUE(w.cache->exclusive(seq, 26, 28));
}

}  // namespace
}  // namespace quire
