// Block tables of sequences: what is found, what is taken, what is given back. Pictures: | is a block's edge.
#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <numeric>

namespace quire {
namespace {

constexpr int64_t kTokenBytes = 8;

std::unique_ptr<KvCache> make_cache(const KvCacheOptions& options, int n_groups = 1) {
  KvLayout layout;
  std::vector<Buffer> memory;
  for (int g = 0; g < n_groups; ++g) {
    layout.claim(g == 0 ? KvGroup{} : KvGroup{KvGroup::Kind::window, 1000}, kTokenBytes * (g + 1));
    memory.push_back(std::move(*Buffer::allocate(kTokenBytes * (g + 1) * options.block_tokens * options.n_blocks)));
  }
  return std::make_unique<KvCache>(layout, std::move(memory), options);
}

std::vector<Token> counting(int n) {
  std::vector<Token> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 100);
  return out;
}

Prefix prefix(const std::vector<Token>& tokens) { return {tokens, {}, {}}; }

// Computes all of `tokens` for a sequence of its own, which ends.
void compute(KvCache& cache, const std::vector<Token>& tokens) {
  SeqKv seq;
  cache.match(seq, prefix(tokens));
  ASSERT_TRUE(cache.grow(seq, static_cast<int>(tokens.size())));
  cache.index(seq, prefix(tokens), static_cast<int>(tokens.size()));
}

// A prompt that is known as a whole: at least its last token is left, or there would be no logits to sample from.
TEST(KvCache, AFullHitLeavesTheLastTokenAtEveryBlockEdge) {
  for (const int block_tokens : {1, 2, 3, 4, 7, 16, 64}) {
    for (int n_blocks = 1; n_blocks <= 3; ++n_blocks) {
      for (const int off : {-1, 0, 1}) {
        const int n = n_blocks * block_tokens + off;
        if (n < 1) continue;
        SCOPED_TRACE("block of " + std::to_string(block_tokens) + ", prompt of " + std::to_string(n));
        const auto cache = make_cache({.block_tokens = block_tokens, .n_blocks = 5});
        const std::vector<Token> tokens = counting(n);
        compute(*cache, tokens);
        EXPECT_EQ(cache->n_indexed_blocks(), n / block_tokens);
        SeqKv seq;
        const int n_cached = cache->match(seq, prefix(tokens));
        EXPECT_EQ(n_cached, (n - 1) / block_tokens * block_tokens);
        EXPECT_LT(n_cached, n);
        EXPECT_EQ(static_cast<int>(seq.table.size()) * block_tokens, n_cached);
        // One token more, and every full block is found.
        SeqKv longer;
        EXPECT_EQ(cache->match(longer, prefix(counting(n + 1))), n / block_tokens * block_tokens);
      }
    }
  }
}

//  | 100…103 | 104…107 |   known; who goes on otherwise within a block takes a copy of what is the same
TEST(KvCache, ThePartOfABlockThatIsTheSameIsCopied) {
  const auto cache = make_cache({.block_tokens = 4, .n_blocks = 8}, 2);
  compute(*cache, counting(8));
  const auto part = [&](const std::vector<Token>& tokens) {
    SeqKv seq;
    const Prefix mine = prefix(tokens);
    cache->match(seq, mine);
    const int n = cache->copy_part(seq, mine);
    EXPECT_EQ(seq.table.size() * 4, (mine.tokens.size() - 1) / 4 * 4 + (n > 0 ? 4 : 0));
    const auto begin = static_cast<int>(seq.table.size() - 1) * 4;
    EXPECT_TRUE(n == 0 || cache->exclusive(seq, begin, begin + n));
    return n;
  };
  EXPECT_EQ(part(counting(8)), 3) << "all but the last token";
  EXPECT_EQ(part(counting(7)), 2);
  EXPECT_EQ(part(counting(5)), 0) << "its last token is all that is left";
  EXPECT_EQ(part({100, 101, 102, 103, 104, 105, 9}), 2);
  EXPECT_EQ(part({100, 101, 102, 103, 9, 105, 106}), 0);
  EXPECT_EQ(part({100, 101, 9}), 2);
  const std::vector<Token> same = counting(8);
  const Prefix salted{same, {0, 0, 1}, {}}, adapted{same, {0, 1, 0}, {}}, of_another{same, {}, {}, 0, 1};
  SeqKv seq;
  EXPECT_EQ(cache->match(seq, of_another), 4) << "whole blocks are shared";
  EXPECT_EQ(cache->copy_part(seq, of_another), 0) << "what others have within a block is not told";
  for (const Prefix& other : {salted, adapted}) {
    SeqKv none;
    EXPECT_EQ(cache->copy_part(none, other), 0);
  }
  const Extra image{5, 2, {1, 0}};
  const Prefix with_image{same, {}, {&image, 1}};
  SeqKv before;
  cache->match(before, with_image);
  EXPECT_EQ(cache->copy_part(before, with_image), 0) << "an image stands in the block";
}

TEST(KvCache, TheBlockThatIsCopiedFromMakesNoRoomForTheCopy) {
  const auto cache = make_cache({.block_tokens = 4, .n_blocks = 2});
  compute(*cache, counting(8));
  SeqKv seq;
  EXPECT_EQ(cache->match(seq, prefix(counting(8))), 4);
  EXPECT_EQ(cache->copy_part(seq, prefix(counting(8))), 0) << "there is no third block";
  EXPECT_EQ(seq.table.size(), 1U);
  EXPECT_EQ(cache->n_indexed_blocks(), 2);
  EXPECT_EQ(cache->check(), "");
}

TEST(KvCache, GrowTakesWholeBlocksAndOnlyWhatIsMissing) {
  const auto cache = make_cache({.block_tokens = 4, .n_blocks = 3});
  SeqKv seq;
  const struct {
    int n_tokens, n_free;
  } steps[] = {{0, 3}, {1, 2}, {4, 2}, {5, 1}, {3, 1}, {8, 1}, {9, 0}, {12, 0}};
  for (const auto& step : steps) {
    EXPECT_TRUE(cache->grow(seq, step.n_tokens));
    EXPECT_EQ(cache->n_free_blocks(), step.n_free) << step.n_tokens;
  }
  EXPECT_FALSE(cache->grow(seq, 13));
  EXPECT_EQ(seq.table.size(), 3U);
}

//  | 100…103 | 104…107 |   cached, nobody holds it; 2 blocks free
TEST(KvCache, GrowEvictsJustEnoughAndRefusesWithNothingChanged) {
  const auto cache = make_cache({.block_tokens = 4, .n_blocks = 4});
  compute(*cache, counting(8));
  EXPECT_EQ(cache->n_free_blocks(), 2);
  EXPECT_EQ(cache->n_cached_blocks(), 2);
  SeqKv seq;
  EXPECT_FALSE(cache->grow(seq, 17));
  EXPECT_TRUE(seq.table.empty());
  EXPECT_EQ(cache->n_cached_blocks(), 2) << "a refusal evicts nothing";
  EXPECT_TRUE(cache->grow(seq, 12));
  EXPECT_EQ(cache->n_free_blocks(), 0);
  EXPECT_EQ(cache->n_cached_blocks(), 1) << "the block behind goes, the one before it stays";
  SeqKv other;
  EXPECT_EQ(cache->match(other, prefix(counting(8))), 4);
}

TEST(KvCache, TruncateGivesBackBlocksAndForgetsWhatWasIndexedThere) {
  const auto cache = make_cache({.block_tokens = 4, .n_blocks = 4});
  const std::vector<Token> tokens = counting(14);
  SeqKv seq;
  ASSERT_TRUE(cache->grow(seq, 14));
  cache->index(seq, prefix(tokens), 14);
  EXPECT_EQ(seq.n_indexed, 3);
  cache->truncate(seq, 13);
  EXPECT_EQ(seq.table.size(), 4U);
  cache->truncate(seq, 12);
  EXPECT_EQ(seq.table.size(), 3U);
  EXPECT_EQ(cache->n_free_blocks(), 1);
  cache->truncate(seq, 4);
  EXPECT_EQ(seq.n_indexed, 1);
  EXPECT_EQ(cache->n_cached_blocks(), 2) << "the tree still knows them";
  // What is computed anew there has other tokens and takes other blocks.
  ASSERT_TRUE(cache->grow(seq, 8));
  EXPECT_TRUE(cache->exclusive(seq, 4, 8));
  EXPECT_FALSE(cache->exclusive(seq, 3, 8));
}

TEST(KvCacheDeathTest, TruncateMustNotCutABlockThatOthersMayRead) {
  const auto cache = make_cache({.block_tokens = 4, .n_blocks = 4});
  SeqKv seq;
  ASSERT_TRUE(cache->grow(seq, 8));
  const std::vector<Token> tokens = counting(8);
  cache->index(seq, prefix(tokens), 8);
  EXPECT_DEATH(cache->truncate(seq, 6), "n_indexed");
  cache->release(seq);
}

TEST(KvCache, ExclusiveMeansBlocksThatNobodyElseHolds) {
  const auto cache = make_cache({.block_tokens = 4, .n_blocks = 4});
  const std::vector<Token> tokens = counting(9);
  compute(*cache, tokens);
  SeqKv seq;
  ASSERT_EQ(cache->match(seq, prefix(tokens)), 8);
  EXPECT_FALSE(cache->exclusive(seq, 8, 9)) << "there is no block yet";
  ASSERT_TRUE(cache->grow(seq, 9));
  EXPECT_TRUE(cache->exclusive(seq, 8, 9));
  EXPECT_FALSE(cache->exclusive(seq, 7, 9));
}

TEST(KvCache, WithoutAPrefixCacheNothingIsKept) {
  const auto cache = make_cache({.block_tokens = 4, .n_blocks = 4, .prefix_cache = false});
  compute(*cache, counting(8));
  EXPECT_EQ(cache->n_free_blocks(), 4);
  SeqKv seq;
  EXPECT_EQ(cache->match(seq, prefix(counting(8))), 0);
  EXPECT_TRUE(cache->grow(seq, 16));
  EXPECT_FALSE(cache->grow(seq, 17));
}

TEST(KvCache, GroupsGrowAndShrinkTogether) {
  const auto cache = make_cache({.block_tokens = 4, .n_blocks = 3}, 2);
  const KvView view = cache->view();
  ASSERT_EQ(view.n_groups, 2);
  EXPECT_EQ(view.groups[0].block_bytes, 4 * kTokenBytes);
  EXPECT_EQ(view.groups[1].block_bytes, 8 * kTokenBytes);
  EXPECT_EQ(view.groups[1].block_tokens, 4);
  EXPECT_NE(view.groups[0].base, view.groups[1].base);
  compute(*cache, counting(8));
  SeqKv seq;
  ASSERT_EQ(cache->match(seq, prefix(counting(9))), 8);
  for (const PrefixTree::Blocks& blocks : seq.table) EXPECT_EQ(blocks.size(), 2U);
  EXPECT_FALSE(cache->grow(seq, 13));
  EXPECT_TRUE(cache->grow(seq, 12));
}

TEST(KvCache, EndsCleanlyWhileTheTreeStillHoldsBlocks) {
  auto cache = make_cache({.block_tokens = 4, .n_blocks = 8});
  compute(*cache, counting(20));
  SeqKv seq;
  ASSERT_EQ(cache->match(seq, prefix(counting(12))), 8);
  ASSERT_TRUE(cache->grow(seq, 12));
  cache->release(seq);
  EXPECT_EQ(cache->n_cached_blocks(), 5);
  cache.reset();  // the tree goes before the pools; a block that outlived its pool would abort in debug builds
}

}  // namespace
}  // namespace quire
