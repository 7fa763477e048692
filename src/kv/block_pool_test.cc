// Blocks and their holders: counts exact after every operation.
#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/rng.h"

namespace quire {
namespace {

constexpr int64_t kBlockBytes = 64;

Buffer memory(int n_blocks) { return std::move(*Buffer::allocate(n_blocks * kBlockBytes)); }

TEST(BlockPool, GivesEveryBlockOnceThenNone) {
  BlockPool pool(memory(3), 3, kBlockBytes);
  std::vector<BlockRef> held;
  std::set<int32_t> ids;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(held.emplace_back(pool.allocate()));
    ids.insert(held.back().id());
    EXPECT_EQ(pool.n_free(), 2 - i);
  }
  EXPECT_EQ(ids, (std::set<int32_t>{0, 1, 2}));
  EXPECT_FALSE(pool.allocate());
  EXPECT_EQ(pool.n_free(), 0);
}

TEST(BlockPool, UsesTheLastFreedFirst) {
  BlockPool pool(memory(4), 4, kBlockBytes);
  BlockRef a = pool.allocate();
  BlockRef b = pool.allocate();
  const int32_t warm = a.id();
  b = BlockRef();
  a = BlockRef();
  EXPECT_EQ(pool.allocate().id(), warm);
}

TEST(BlockPool, IsFreeWhenTheLastHolderEnds) {
  BlockPool pool(memory(1), 1, kBlockBytes);
  BlockRef a = pool.allocate();
  {
    const BlockRef b = a.share();
    EXPECT_EQ(b.id(), a.id());
    EXPECT_EQ(pool.n_refs(a.id()), 2);
    a = BlockRef();
    EXPECT_EQ(pool.n_free(), 0);
  }
  EXPECT_EQ(pool.n_free(), 1);
}

TEST(BlockRef, MovesWithoutCounting) {
  BlockPool pool(memory(2), 2, kBlockBytes);
  BlockRef a = pool.allocate();
  const int32_t id = a.id();
  BlockRef b(std::move(a));
  EXPECT_EQ(pool.n_refs(id), 1);
  BlockRef& same = b;
  b = std::move(same);  // to itself: nothing is lost
  ASSERT_TRUE(b);
  EXPECT_EQ(b.id(), id);
  BlockRef c = pool.allocate();
  c = std::move(b);  // what c held is free
  EXPECT_EQ(pool.n_free(), 1);
  EXPECT_EQ(c.id(), id);
}

TEST(BlockPool, CountsWhatOnlyTheTreeHolds) {
  BlockPool pool(memory(2), 2, kBlockBytes);
  BlockRef seq = pool.allocate();
  BlockRef tree = seq.share();
  pool.set_indexed(tree.id(), true);
  EXPECT_EQ(pool.n_cached(), 0) << "a sequence holds it too";
  seq = BlockRef();
  EXPECT_EQ(pool.n_cached(), 1);
  seq = tree.share();
  EXPECT_EQ(pool.n_cached(), 0);
  seq = BlockRef();
  pool.set_indexed(tree.id(), false);
  EXPECT_EQ(pool.n_cached(), 0);
  tree = BlockRef();
  EXPECT_EQ(pool.n_free(), 2);
}

// Against a count per block kept by hand.
TEST(BlockPool, RandomOperationsKeepTheCounts) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const auto n_blocks = static_cast<int>(rng.between(1, 6));
    BlockPool pool(memory(n_blocks), n_blocks, kBlockBytes);
    std::vector<BlockRef> refs;
    std::map<int32_t, int> count;
    for (int op = 0; op < 60; ++op) {
      const auto pick = static_cast<size_t>(refs.empty() ? 0 : rng.between(0, static_cast<int64_t>(refs.size()) - 1));
      switch (rng.between(0, 2)) {
        case 0:
          if (BlockRef fresh = pool.allocate()) {
            EXPECT_EQ(count[fresh.id()]++, 0) << "a block that somebody holds was given out";
            refs.push_back(std::move(fresh));
          } else {
            EXPECT_EQ(static_cast<int>(std::count_if(count.begin(), count.end(), [](auto& c) { return c.second > 0; })),
                      n_blocks);
          }
          break;
        case 1:
          if (refs.empty()) break;
          ++count[refs[pick].id()];
          refs.push_back(refs[pick].share());
          break;
        default:
          if (refs.empty()) break;
          --count[refs[pick].id()];
          refs.erase(refs.begin() + static_cast<std::ptrdiff_t>(pick));
      }
      int n_held = 0;
      for (int32_t b = 0; b < n_blocks; ++b) {
        EXPECT_EQ(pool.n_refs(b), count[b]);
        n_held += count[b] > 0 ? 1 : 0;
      }
      EXPECT_EQ(pool.n_free(), n_blocks - n_held);
    }
  }
}

#ifdef QR_DEBUG
TEST(BlockPoolDeathTest, ABlockMustNotOutliveItsPool) {
  EXPECT_DEATH(
      {
        BlockRef late;
        BlockPool pool(memory(1), 1, kBlockBytes);
        late = pool.allocate();
      },
      "outlives its pool");
}
#endif

}  // namespace
}  // namespace quire
