// Blocks of a private group: what is not packed yet lies there, so a sequence holds the block that it writes and gives
// it back behind it; the tree has none.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "kv/kv_cache.h"
#include "kv/kv_image.h"

namespace quire {
namespace {

constexpr int kBlock = 4;
constexpr int kTail = 1;  // the group

struct World {
  explicit World(int n_tails = 4, int n_blocks = 16) {
    KvLayout layout;
    layout.claim(KvGroup{}, 8);
    layout.claim(kTailGroup, 64);
    std::vector<Buffer> memory;
    for (int g = 0; g < 2; ++g)
      memory.push_back(std::move(*Buffer::allocate(layout.block_bytes(g, kBlock) * (g == 0 ? n_blocks : n_tails))));
    cache = std::make_unique<KvCache>(
        layout, std::move(memory),
        KvCacheOptions{.block_tokens = kBlock, .n_blocks = n_blocks, .n_tail_blocks = n_tails});
    std::iota(tokens.begin(), tokens.end(), 100);
  }
  Prefix prefix(int n) const {
    Prefix out;
    out.tokens = std::span(tokens).first(static_cast<size_t>(n));
    return out;
  }
  // Computed up to n tokens, at most a block at a time.
  void compute(SeqKv& seq, int from, int n) const {
    for (int at = from; at < n;) {
      at = std::min(n, at + kBlock);
      ASSERT_TRUE(cache->grow(seq, at));
      cache->index(seq, prefix(at), at);
      cache->slide(seq, at);
    }
  }
  int n_free_tails() const { return cache->pool(kTail).n_free(); }
  std::vector<Token> tokens = std::vector<Token>(64);
  std::unique_ptr<KvCache> cache;
};

TEST(KvTail, ASequenceHoldsTheBlockThatItWritesAlone) {
  const World w;
  SeqKv seq;
  w.compute(seq, 0, 10);
  EXPECT_EQ(seq.table.size(), 3U);
  EXPECT_FALSE(seq.table[0][size_t{kTail}]);
  EXPECT_FALSE(seq.table[1][size_t{kTail}]);
  EXPECT_TRUE(seq.table[2][size_t{kTail}]);
  EXPECT_EQ(w.n_free_tails(), 3);
  w.compute(seq, 10, 12);
  EXPECT_EQ(w.n_free_tails(), 4) << "nobody reads what is packed";
  EXPECT_EQ(w.cache->pool(kTail).n_cached(), 0) << "the tree has none";
  w.cache->release(seq);
  EXPECT_EQ(w.n_free_tails(), 4);
  EXPECT_EQ(w.cache->check(), "");
}

TEST(KvTail, APrefixIsFoundInWholeBlocksWithoutThem) {
  const World w;
  SeqKv first, second;
  w.compute(first, 0, 11);
  w.cache->release(first);
  EXPECT_EQ(w.cache->peek(w.prefix(11)), 8);
  EXPECT_EQ(w.cache->match(second, w.prefix(11)), 8);
  EXPECT_EQ(w.cache->copy_part(second, w.prefix(11)), 0) << "no part of a block that is packed as a whole";
  w.compute(second, 8, 11);
  EXPECT_TRUE(second.table[2][size_t{kTail}]);
  EXPECT_TRUE(w.cache->exclusive(second, 8, 11));
  w.cache->release(second);
}

// A draft goes over a block's end and is refused: the sequence is back within the block.
TEST(KvTail, StaysUntilABlockIsBehindWhatIsComputed) {
  const World w;
  SeqKv seq;
  w.compute(seq, 0, 7);
  ASSERT_TRUE(w.cache->grow(seq, 10));
  const int32_t tail = seq.table[1][size_t{kTail}].id();
  w.cache->truncate(seq, 8);  // the guesses were wrong: 7 are computed and the eighth is
  w.cache->slide(seq, 7);
  ASSERT_EQ(seq.table.size(), 2U);
  EXPECT_EQ(seq.table[1][size_t{kTail}].id(), tail);
  w.cache->slide(seq, 8);
  EXPECT_FALSE(seq.table[1][size_t{kTail}]);
  EXPECT_EQ(w.n_free_tails(), 4);
  w.cache->release(seq);
}

TEST(KvTail, IsCopiedWithAPartOfABlock) {
  const World w;
  SeqKv leader, follower, back;
  w.compute(leader, 0, 6);
  const auto bytes = [&w](const SeqKv& seq) {
    const BlockPool& pool = w.cache->pool(kTail);
    return pool.base() + seq.table[1][size_t{kTail}].id() * pool.block_bytes();
  };
  std::memset(bytes(leader), 7, 4 * 64);
  w.cache->share(follower, leader, 1);
  ASSERT_TRUE(w.cache->copy_next_block(follower, leader));
  EXPECT_NE(bytes(follower), bytes(leader));
  EXPECT_EQ(std::memcmp(bytes(follower), bytes(leader), 4 * 64), 0);
  EXPECT_FALSE(w.cache->parts_with_past(leader, 6)) << "what is computed up to here is found again without it";
  const std::optional<KvImage> image = w.cache->copy_out(leader, 6);
  ASSERT_TRUE(image);
  EXPECT_EQ(image->n_bytes, 2 * 4 * 8 + 4 * 64);
  w.cache->release(leader);
  ASSERT_TRUE(w.cache->put_back(back, *image));
  EXPECT_EQ(std::memcmp(bytes(back), bytes(follower), 4 * 64), 0);
  w.cache->release(follower);
  w.cache->release(back);
}

TEST(KvTail, RoomIsMissingWhereTailsAre) {
  const World w(2);
  SeqKv a, b, c;
  w.compute(a, 0, 3);
  w.compute(b, 0, 2);
  EXPECT_FALSE(w.cache->grow(c, 1));
  EXPECT_TRUE(w.cache->shortage(c, {.n_tokens = 1, .n_step = 1, .n_spare = 0}));
  w.compute(a, 3, 4);
  EXPECT_TRUE(w.cache->grow(c, 1));
  for (SeqKv* seq : {&a, &b, &c}) w.cache->release(*seq);
}

}  // namespace
}  // namespace quire
