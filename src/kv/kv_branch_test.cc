// A branch of a sequence: what it shares, what it copies, what becomes of either's blocks. Pictures: | is a block's
// edge.
#include <gtest/gtest.h>

#include <cstring>

#include "kv/block_ids.h"
#include "kv/kv_cache.h"

namespace quire {
namespace {

constexpr int kBlock = 4;
constexpr int64_t kTokenBytes = 8;

std::unique_ptr<KvCache> make_cache(int n_blocks, bool keeps_state = false) {
  KvLayout layout;
  layout.claim(KvGroup{}, kTokenBytes);
  if (keeps_state) {
    layout.claim_state(64);
  } else {
    layout.claim({KvGroup::Kind::window, 1000}, kTokenBytes);
  }
  std::vector<Buffer> memory;
  memory.reserve(static_cast<size_t>(layout.n_groups()));
  for (int g = 0; g < layout.n_groups(); ++g)
    memory.push_back(std::move(*Buffer::allocate(layout.block_bytes(g, kBlock) * n_blocks)));
  return std::make_unique<KvCache>(layout, std::move(memory),
                                   KvCacheOptions{.block_tokens = kBlock, .n_blocks = n_blocks});
}

std::byte* block(const KvCache& cache, int g, const GroupBlocks& blocks) {
  return cache.pool(g).base() + blocks[static_cast<size_t>(g)].id() * cache.pool(g).block_bytes();
}

//  sequence  | 0 … 3 | 4 5 _ _ |     computed: 6 tokens, the due one is 6
//  branch              4 5 _ b | b     its tokens are 7 and 8
TEST(KvCacheBranch, SharesWholeBlocksAndCopiesWhatIsComputedOfTheNext) {
  const auto cache = make_cache(8);
  SeqKv seq;
  ASSERT_TRUE(cache->grow(seq, 8));
  for (int g = 0; g < 2; ++g)
    std::memset(block(*cache, g, seq.table[1]), 7 + g, static_cast<size_t>(kTokenBytes * kBlock));
  KvBranch branch;
  ASSERT_TRUE(cache->branch(branch, seq, {.n_computed = 6, .begin = 7, .end = 9, .n_spare = 0}));
  EXPECT_EQ(branch.n_shared, 1U);
  ASSERT_EQ(branch.blocks.size(), 2U);
  EXPECT_EQ(cache->n_free_blocks(), 4);
  for (int g = 0; g < 2; ++g) {
    EXPECT_NE(block(*cache, g, branch.blocks[0]), block(*cache, g, seq.table[1]));
    EXPECT_EQ(std::memcmp(block(*cache, g, branch.blocks[0]), block(*cache, g, seq.table[1]), kTokenBytes * kBlock), 0);
  }
  std::array<int32_t, 3> ids{};
  put_block_ids(seq, branch, 0, ids);
  EXPECT_EQ(ids, (std::array{seq.table[0][0].id(), branch.blocks[0][0].id(), branch.blocks[1][0].id()}));

  const auto own = ids;
  KvCache::adopt(seq, std::move(branch));
  ASSERT_EQ(seq.table.size(), 3U);
  put_block_ids(seq, 0, ids);
  EXPECT_EQ(ids, own);
  EXPECT_EQ(cache->n_free_blocks(), 5) << "the block that it replaces is free again";
  EXPECT_TRUE(cache->exclusive(seq, 4, 9));
  cache->truncate(seq, 8);
  EXPECT_EQ(cache->n_free_blocks(), 6);
  cache->release(seq);
  EXPECT_EQ(cache->n_free_blocks(), 8);
}

//  sequence  | 0 … 3 | _ _ _ _ |    the branch begins with a block: there is nothing to copy, and all before is shared
TEST(KvCacheBranch, OfAWholeBlockSharesAllBeforeIt) {
  const auto cache = make_cache(8);
  SeqKv seq;
  ASSERT_TRUE(cache->grow(seq, 12));
  KvBranch branch;
  ASSERT_TRUE(cache->branch(branch, seq, {.n_computed = 4, .begin = 8, .end = 9, .n_spare = 0}));
  EXPECT_EQ(branch.n_shared, 2U);
  EXPECT_EQ(branch.blocks.size(), 1U);
}

TEST(KvCacheBranch, LeavesRoomToOthersOrChangesNothing) {
  const auto cache = make_cache(6);
  SeqKv seq;
  ASSERT_TRUE(cache->grow(seq, 12));
  KvBranch branch;
  EXPECT_FALSE(cache->branch(branch, seq, {.n_computed = 6, .begin = 7, .end = 9, .n_spare = 2}));
  EXPECT_TRUE(branch.blocks.empty());
  EXPECT_EQ(cache->n_free_blocks(), 3);
  EXPECT_TRUE(cache->branch(branch, seq, {.n_computed = 6, .begin = 7, .end = 9, .n_spare = 1}));
  EXPECT_EQ(cache->n_free_blocks(), 1);
  branch.blocks.clear();
  EXPECT_EQ(cache->n_free_blocks(), 3);
}

TEST(KvCacheBranch, ThereIsNoneWhereLayersKeepAState) {
  const auto cache = make_cache(8, true);
  SeqKv seq;
  ASSERT_TRUE(cache->grow(seq, 6));
  KvBranch branch;
  EXPECT_FALSE(cache->branch(branch, seq, {.n_computed = 5, .begin = 6, .end = 7, .n_spare = 0}));
}

}  // namespace
}  // namespace quire
