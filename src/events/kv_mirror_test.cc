// A copy of what is in memory, kept by news.
#include "events/kv_mirror.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"

namespace quire {
namespace {

// Random trees that grow and lose leaves: what the mirror has is what a plain map has, parents first.
TEST(KvMirror, HasWhatWasStoredAndNotRemoved) {
  constexpr int kBlockTokens = 2;
  Rng rng(7);
  KvMirror mirror(kBlockTokens);
  std::map<uint64_t, uint64_t> parents;  // by number; 0: none
  uint64_t last = 0;
  const auto is_leaf = [&](uint64_t of) {
    return std::ranges::none_of(parents, [of](const auto& entry) { return entry.second == of; });
  };
  for (int step = 0; step < 400; ++step) {
    KvNews news;
    for (int i = 0; i < 3; ++i) {
      auto at = parents.begin();
      if (!parents.empty()) std::advance(at, rng.between(0, std::ssize(parents) - 1));
      if (!parents.empty() && rng.between(0, 2) == 0 && is_leaf(at->first)) {
        news.blocks.push_back({{at->first, 9}, {}, 0, 0, false});
        parents.erase(at);
        continue;
      }
      const uint64_t parent = parents.empty() || rng.between(0, 3) == 0 ? 0 : at->first;
      parents[++last] = parent;
      news.blocks.push_back({{last, 9}, parent == 0 ? Hash128() : Hash128{parent, 9}, 5, 6, true});
      for (int t = 0; t < kBlockTokens; ++t) news.tokens.push_back(static_cast<Token>(last) * 10 + t);
    }
    mirror.apply(news);
    ASSERT_EQ(mirror.n_blocks(), parents.size());
  }
  ASSERT_GT(parents.size(), 10U);
  const auto all = mirror.all();
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->all_cleared);
  std::map<uint64_t, uint64_t> found;
  for (size_t i = 0; i < all->blocks.size(); ++i) {
    const KvNews::Block& block = all->blocks[i];
    EXPECT_TRUE(block.parent == Hash128() || found.contains(block.parent.lo));
    EXPECT_EQ(block.adapter, 5U);
    EXPECT_EQ(block.salt, 6U);
    EXPECT_EQ(all->tokens[i * kBlockTokens + 1], static_cast<Token>(block.name.lo) * 10 + 1);
    found[block.name.lo] = block.parent.lo;
  }
  EXPECT_EQ(found, parents);
}

TEST(KvMirror, SaysWhereSomeWereMissed) {
  KvMirror mirror(1);
  EXPECT_TRUE(mirror.all());
  mirror.miss();
  EXPECT_FALSE(mirror.all());
}

}  // namespace
}  // namespace quire
