// Where a path ends and what is told of others, by pictures as in prefix_tree_test. Blocks of two tokens.
#include <gtest/gtest.h>

#include "kv/prefix_tree.h"

namespace quire {
namespace {

constexpr int kBlockTokens = 2;
using Tokens = std::vector<Token>;

struct Wood {
  explicit Wood(int n_blocks = 16, int n_departures = 32)
      : pool(std::move(*Buffer::allocate(n_blocks * 8)), n_blocks, 8),
        tree({{KvGroup{}, &pool}}, kBlockTokens, PrefixTreeOptions{.n_departures = n_departures}) {}

  void insert(const Tokens& tokens, uint64_t whose = 0, CacheKey key = {}, int n_public = 0) {
    std::vector<PrefixTree::Blocks> table;
    for (size_t b = 0; b < tokens.size() / kBlockTokens; ++b) table.emplace_back().push_back(pool.allocate());
    tree.insert({tokens, key, {}, n_public, whose}, static_cast<int>(table.size()), table);
    EXPECT_EQ(tree.check(), "");
  }
  PathTrace trace(const Tokens& tokens, uint64_t whose = 0, CacheKey key = {}, int n_public = 0) {
    return tree.trace({tokens, key, {}, n_public, whose}, static_cast<int>(tokens.size()) / kBlockTokens, limits);
  }
  const Departure* departure(const Tokens& tokens) {
    const auto n = static_cast<int>(tokens.size()) / kBlockTokens;
    return tree.departure(tree.names({tokens, {}, {}}, n).back());
  }

  BlockPool pool;
  PrefixTree tree;
  TraceLimits limits{.n_siblings = 4, .n_stored = 3};
};

//  root ─ [1 2] ─ [3 4] ─ [5 6] ─ [7 8]
TEST(PathTrace, SaysHowFarAPathIsKnownAndWhatIsStoredBehindIt) {
  Wood w;
  w.insert({1, 2, 3, 4, 5, 6, 7, 8});
  PathTrace t = w.trace({1, 2, 3, 9, 5, 6});
  EXPECT_EQ(t.n_matched, 2);
  EXPECT_EQ(t.n_known, 2);
  EXPECT_EQ(t.n_common, 1);
  EXPECT_EQ(t.stored, (Tokens{4, 5, 6})) << "from the token that differs, three at most";
  t = w.trace({1, 2, 9, 9});
  EXPECT_EQ(t.n_common, 0);
  EXPECT_EQ(t.stored, (Tokens{3, 4, 5}));
  t = w.trace({1, 2, 3, 4, 5, 6, 7, 8, 9, 9});
  EXPECT_EQ(t.n_known, 8);
  EXPECT_TRUE(t.stored.empty()) << "what is stored ends there";
  EXPECT_TRUE(w.trace({1, 2, 3, 4}).stored.empty()) << "all of it is there";
}

TEST(PathTrace, AtTheRootOnlyWhatBeginsAlikeIsAlike) {
  Wood w;
  w.insert({1, 2, 3, 4});
  EXPECT_TRUE(w.trace({9, 9}).stored.empty());
  EXPECT_EQ(w.trace({1, 9}).stored, (Tokens{2, 3, 4}));
}

//  root ─ [1 2] ┬ [3 4]*   *: of tenant 1
//               └ [3 5]°   °: of tenant 2
TEST(PathTrace, OfAnotherTenantOrAnotherKeyNothingIsTold) {
  Wood w;
  w.insert({1, 2, 3, 4}, 1);
  w.insert({1, 2, 3, 5}, 2);
  EXPECT_EQ(w.trace({1, 2, 3, 6}, 1).stored, (Tokens{4}));
  EXPECT_EQ(w.trace({1, 2, 3, 6}, 2).stored, (Tokens{5}));
  EXPECT_TRUE(w.trace({1, 2, 3, 6}, 3).stored.empty());
  EXPECT_EQ(w.trace({1, 2, 3, 6}, 3).n_matched, 2) << "what a request would find";
  const CacheKey salted{.salt = 7};
  w.insert({1, 2, 3, 4}, 1, salted, 2);
  EXPECT_TRUE(w.trace({1, 2, 3, 6}, 1, {.salt = 8}, 2).stored.empty()) << "another salt behind what is public";
  EXPECT_EQ(w.trace({1, 2, 3, 6}, 1, salted, 2).stored, (Tokens{4}));
  EXPECT_TRUE(w.trace({1, 9}, 1, {.salt = 8}).stored.empty());
}

TEST(PathTrace, LooksAtTheNewestStoredPathsAlone) {
  Wood w;
  w.insert({1, 2, 3, 3});
  for (Token t = 10; t < 14; ++t) w.insert({1, 2, t, t});
  EXPECT_EQ(w.trace({1, 2, 3, 4}).stored, (Tokens{13, 13})) << "the last used of the four newest";
  w.limits.n_siblings = 5;
  EXPECT_EQ(w.trace({1, 2, 3, 4}).stored, (Tokens{3}));
}

TEST(PathTrace, TakesAndTouchesNothing) {
  Wood w(4);
  w.insert({1, 2});
  w.insert({3, 4});
  w.trace({1, 2, 9, 9});
  w.trace({1, 9});
  EXPECT_EQ(w.tree.evict(1), 1);
  EXPECT_EQ(w.trace({1, 2}).n_matched, 0) << "the longest unused is the same as before";
  EXPECT_EQ(w.trace({3, 4}).n_matched, 2);
}

TEST(PathTrace, RemembersWhenAndForWhomBlocksLeft) {
  Wood w;
  w.insert({1, 2, 3, 4}, 5);
  EXPECT_EQ(w.departure({1, 2, 3, 4}), nullptr);
  w.tree.evict(1, {100, 6});
  const Departure* left = w.departure({1, 2, 3, 4});
  ASSERT_NE(left, nullptr);
  EXPECT_EQ(left->time_ns, 100);
  EXPECT_EQ(left->whose, 5U);
  EXPECT_EQ(left->made_way, 6U);
  EXPECT_EQ(w.departure({1, 2}), nullptr);
  w.insert({1, 2, 3, 4}, 7);
  w.tree.evict(2, {200, 8});
  EXPECT_EQ(w.departure({1, 2, 3, 4})->time_ns, 200);
  EXPECT_EQ(w.departure({1, 2})->whose, 5U) << "it was there before the second came";
  Wood none(16, 0);
  none.insert({1, 2});
  none.tree.evict(1, {100, 6});
  EXPECT_EQ(none.departure({1, 2}), nullptr);
}

}  // namespace
}  // namespace quire
