// The tree by pictures. Blocks of two tokens; a node is written [a b], * marks one that a sequence holds.
#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr int kBlockTokens = 2;

using Tokens = std::vector<Token>;

Hash128 constant_hash(const void*, size_t, uint64_t) { return {7, 7}; }

// A tree over `n_groups` pools, and what a sequence does with it.
struct Forest {
  explicit Forest(int n_blocks = 16, int n_groups = 1, PathHasher::Fn hash = nullptr) {
    std::vector<PrefixTree::Group> raw;
    for (int g = 0; g < n_groups; ++g) {
      pools.push_back(std::make_unique<BlockPool>(std::move(*Buffer::allocate(n_blocks * 8)), n_blocks, 8));
      raw.push_back({KvGroup{}, pools.back().get()});
    }
    tree = std::make_unique<PrefixTree>(raw, kBlockTokens, PrefixTreeOptions{.hash = hash});
  }

  using Table = std::vector<PrefixTree::Blocks>;

  // Computes `tokens` in blocks of its own and makes them findable.
  Table insert(const Tokens& tokens, const CacheKey& key = {}, std::span<const Extra> extras = {}) {
    Table table;
    for (size_t b = 0; b < tokens.size() / kBlockTokens; ++b) {
      for (auto& pool : pools) {
        if (table.size() == b) table.emplace_back();
        table[b].push_back(pool->allocate());
      }
    }
    tree->insert({tokens, key, extras}, static_cast<int>(table.size()), table);
    EXPECT_EQ(tree->check(), "");
    return table;
  }
  Table insert_prefix(const Prefix& prefix) {
    Table table;
    for (size_t b = 0; b < prefix.tokens.size() / kBlockTokens; ++b)
      table.emplace_back().push_back(pools[0]->allocate());
    tree->insert(prefix, static_cast<int>(table.size()), table);
    EXPECT_EQ(tree->check(), "");
    return table;
  }
  int n_found(const Prefix& prefix) {
    const int n = tree->peek(prefix, static_cast<int>(prefix.tokens.size()) / kBlockTokens);
    Table table;
    tree->match(prefix, static_cast<int>(prefix.tokens.size()) / kBlockTokens, table);
    EXPECT_EQ(static_cast<int>(table.size()), n);
    EXPECT_EQ(tree->check(), "");
    return n;
  }
  Table match(const Tokens& tokens, const CacheKey& key = {}, std::span<const Extra> extras = {}) {
    Table table;
    tree->match({tokens, key, extras}, static_cast<int>(tokens.size()) / kBlockTokens, table);
    EXPECT_EQ(tree->check(), "");
    return table;
  }
  size_t n_known(const Tokens& tokens, const CacheKey& key = {}, std::span<const Extra> extras = {}) {
    return match(tokens, key, extras).size();
  }

  std::vector<std::unique_ptr<BlockPool>> pools;
  std::unique_ptr<PrefixTree> tree;
};

std::vector<int32_t> ids(const Forest::Table& table) {
  std::vector<int32_t> out;
  for (const PrefixTree::Blocks& blocks : table) out.push_back(blocks[0].id());
  return out;
}

//  root ─ [1 2] ─ [3 4] ─ [5 6]
TEST(PrefixTree, FindsTheLongestKnownPrefixInWholeBlocks) {
  Forest f;
  const auto mine = ids(f.insert({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(f.tree->n_nodes(), 3);
  EXPECT_EQ(ids(f.match({1, 2, 3, 4, 5, 6, 7, 8})), mine);
  EXPECT_EQ(ids(f.match({1, 2, 3, 4, 5})), (std::vector<int32_t>{mine[0], mine[1]}));
  EXPECT_EQ(f.n_known({1, 2, 3, 9, 5, 6}), 1U);
  EXPECT_EQ(f.n_known({2, 1, 3, 4}), 0U);
  EXPECT_EQ(f.n_known({3, 4, 5, 6}), 0U) << "equal tokens after another past are another block";
  EXPECT_EQ(f.n_known({}), 0U);
}

TEST(PrefixTree, MatchesNoMoreBlocksThanAskedFor) {
  Forest f;
  f.insert({1, 2, 3, 4, 5, 6});
  const Tokens tokens = {1, 2, 3, 4, 5, 6};
  for (size_t n = 0; n <= 3; ++n) {
    Forest::Table table;
    f.tree->match({tokens, {}, {}}, static_cast<int>(n), table);
    EXPECT_EQ(table.size(), n);
  }
}

//  root ─ [1 2] ┬ [3 4] ─ [5 6]
//               └ [3 9] ─ [5 6]
TEST(PrefixTree, BranchesAtABlockAndKeepsEqualBlocksApartBehindIt) {
  Forest f;
  const auto a = ids(f.insert({1, 2, 3, 4, 5, 6}));
  const auto b = ids(f.insert({1, 2, 3, 9, 5, 6}));
  EXPECT_EQ(f.tree->n_nodes(), 5);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_NE(a[1], b[1]);
  EXPECT_NE(a[2], b[2]);
  EXPECT_EQ(ids(f.match({1, 2, 3, 4, 5, 6})), a);
  EXPECT_EQ(ids(f.match({1, 2, 3, 9, 5, 6})), b);
}

// Two sequences compute the same prompt side by side: the second one's blocks are given up for the first one's.
TEST(PrefixTree, InsertTakesTheKnownBlockAndFreesItsOwn) {
  Forest f(4);
  const auto first = f.insert({1, 2, 3, 4});
  EXPECT_EQ(f.pools[0]->n_free(), 2);
  const auto second = f.insert({1, 2, 3, 4});
  EXPECT_EQ(ids(second), ids(first));
  EXPECT_EQ(f.pools[0]->n_free(), 2);
  EXPECT_EQ(f.pools[0]->n_refs(first[0][0].id()), 3) << "both sequences and the tree";
}

TEST(PrefixTree, KeysNeverShare) {
  Forest f;
  const CacheKey key{1, 2, 3};
  f.insert({1, 2, 3, 4}, key);
  EXPECT_EQ(f.n_known({1, 2, 3, 4}, key), 2U);
  for (const CacheKey& other :
       {CacheKey{9, 2, 3}, CacheKey{1, 9, 3}, CacheKey{1, 2, 9}, CacheKey{2, 1, 3}, CacheKey{}}) {
    EXPECT_EQ(f.n_known({1, 2, 3, 4}, other), 0U);
  }
}

//  tokens   1 2 | 0 0 | 0 4 | 5 6        an image lies under the zeros
TEST(PrefixTree, ExtrasArePartOfTheKeyFromTheirBlockOn) {
  Forest f;
  const Tokens tokens = {1, 2, 0, 0, 0, 4, 5, 6};
  const std::vector<Extra> image = {{2, 3, {5, 5}}};
  const std::vector<Extra> other = {{2, 3, {5, 6}}};
  f.insert(tokens, {}, image);
  EXPECT_EQ(f.n_known(tokens, {}, image), 4U);
  EXPECT_EQ(f.n_known(tokens, {}, other), 1U) << "only what stands before the image";
  EXPECT_EQ(f.n_known(tokens, {}, {}), 1U);
}

//  tokens   1 2 | 3 4 | 5 6 | 7 8        an adapter adds to 6 and to all behind it
TEST(PrefixTree, BlocksBeforeAnAdaptersFirstTokenAreTheModels) {
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto prefix = [&](uint64_t adapter, int n_base) {
    return Prefix{.tokens = tokens, .key = {1, adapter, 3}, .extras = {}, .n_base = n_base};
  };
  const struct {
    Prefix other;
    int n_known;
  } cases[] = {{prefix(9, 5), 4}, {prefix(0, 0), 2}, {prefix(0, 5), 2}, {prefix(9, 4), 2},  {prefix(9, 3), 1},
               {prefix(9, 6), 2}, {prefix(8, 5), 2}, {prefix(9, 0), 0}, {prefix(9, 99), 2}, {prefix(9, 1), 0}};
  for (const bool swapped : {false, true}) {
    for (const auto& [other, n_known] : cases) {
      SCOPED_TRACE(std::to_string(other.key.adapter) + " from " + std::to_string(other.n_base));
      Forest f;
      f.insert_prefix(swapped ? other : prefix(9, 5));
      EXPECT_EQ(f.n_found(swapped ? prefix(9, 5) : other), n_known);
    }
  }
  const Prefix activated = prefix(9, 5);
  const PrefixBlocks blocks{activated, 2};
  for (int b = 0; b < 4; ++b) {
    EXPECT_EQ(blocks.key(b), (CacheKey{1, b < 2 ? 0U : 9U, 3}));
    EXPECT_EQ(blocks.extras(b).size(), b == 2 ? 1U : 0U);
  }
}

TEST(PrefixTree, WhereAnExtraLiesIsPartOfTheKey) {
  Forest f;
  const Tokens tokens = {0, 0, 0, 0};
  const std::vector<Extra> at_0 = {{0, 1, {5, 5}}};
  f.insert(tokens, {}, at_0);
  EXPECT_EQ(f.n_known(tokens, {}, at_0), 2U);
  EXPECT_EQ(f.n_known(tokens, {}, std::vector<Extra>{{1, 1, {5, 5}}}), 0U);
  EXPECT_EQ(f.n_known(tokens, {}, std::vector<Extra>{{0, 2, {5, 5}}}), 0U);
}

//  root ┬ [1 2] ┬ [3 4]      used: [3 4] then [5 6] then [7 8]
//       │       └ [5 6]
//       └ [7 8]
TEST(PrefixTree, EvictsTheLeastRecentlyUsedLeafFirst) {
  Forest f;
  f.insert({1, 2, 3, 4});
  f.insert({1, 2, 5, 6});
  f.insert({7, 8});
  EXPECT_EQ(f.tree->evict(1), 1);
  EXPECT_EQ(f.tree->check(), "");
  EXPECT_EQ(f.n_known({1, 2, 3, 4}), 1U) << "[3 4] went; this look-up uses [1 2]";
  EXPECT_EQ(f.tree->evict(1), 1);
  EXPECT_EQ(f.tree->evict(1), 1);
  EXPECT_EQ(f.tree->check(), "");
  EXPECT_EQ(f.n_known({1, 2, 5, 6}), 1U) << "[5 6], then [7 8]: [1 2] was used after both";
  EXPECT_EQ(f.n_known({7, 8}), 0U);
}

//  root ─ [1 2] ─ [3 4] ─ [5 6]     one by one from the end
TEST(PrefixTree, AParentGoesAfterItsChildren) {
  Forest f;
  f.insert({1, 2, 3, 4, 5, 6});
  f.insert({7, 8});
  for (const size_t left : {2U, 1U, 0U}) {
    EXPECT_EQ(f.tree->evict(1), 1);
    EXPECT_EQ(f.tree->check(), "");
    EXPECT_EQ(f.tree->n_nodes(), static_cast<int>(left) + 1);
  }
  EXPECT_EQ(f.n_known({7, 8}), 1U) << "a chain older than a leaf goes as a whole before it";
}

TEST(PrefixTree, OneCallMayEvictAWholeChain) {
  Forest f(5);
  f.insert({1, 2, 3, 4, 5, 6});
  f.insert({7, 8});
  EXPECT_EQ(f.tree->evict(3), 3);
  EXPECT_EQ(f.tree->check(), "");
  EXPECT_EQ(f.n_known({1, 2}), 0U);
  EXPECT_EQ(f.n_known({7, 8}), 1U);
  EXPECT_EQ(f.tree->evict(100), 1);
  EXPECT_EQ(f.pools[0]->n_free(), 5);
}

//  root ─ [1 2]* ─ [3 4]* ─ [5 6]
TEST(PrefixTree, NeverEvictsWhatASequenceHolds) {
  Forest f(8);
  f.insert({1, 2, 3, 4, 5, 6});
  {
    const auto held = f.match({1, 2, 3, 4});
    EXPECT_EQ(f.pools[0]->n_cached(), 1);
    EXPECT_EQ(f.tree->evict(100), 1);
    EXPECT_EQ(f.tree->check(), "");
    EXPECT_EQ(ids(f.match({1, 2, 3, 4, 5, 6})), ids(held));
  }
  EXPECT_EQ(f.pools[0]->n_cached(), 2);
  EXPECT_EQ(f.tree->evict(100), 2);
  EXPECT_EQ(f.pools[0]->n_free(), 8);
}

TEST(PrefixTree, KeepsTheGroupsOfABlockTogether) {
  Forest f(3, 2);
  const auto table = f.insert({1, 2, 3, 4});
  ASSERT_EQ(table[0].size(), 2U);
  const auto found = f.match({1, 2, 3, 4});
  for (size_t b = 0; b < 2; ++b) {
    for (size_t g = 0; g < 2; ++g) EXPECT_EQ(found[b][g].id(), table[b][g].id());
  }
  EXPECT_EQ(f.pools[1]->n_free(), 1);
}

TEST(PrefixTree, ACollisionIsAMissAndLeavesTheRestPrivate) {
  Forest f(8, 1, constant_hash);
  f.insert({1, 2});
  EXPECT_EQ(f.n_known({1, 2}), 1U);
  EXPECT_EQ(f.n_known({3, 4}), 0U);
  {
    const auto loser = f.insert({3, 4, 5, 6});
    EXPECT_EQ(f.pools[0]->n_refs(loser[0][0].id()), 1) << "only its own sequence holds it";
    EXPECT_EQ(f.n_known({3, 4, 5, 6}), 0U);
  }
  EXPECT_EQ(f.n_known({1, 2}, CacheKey{0, 0, 1}), 0U) << "the key is compared as well as the tokens";
  EXPECT_EQ(f.tree->evict(1), 1);
  f.insert({3, 4});
  EXPECT_EQ(f.n_known({3, 4}), 1U);
}

TEST(PrefixTree, MayEndBeforeItsSequences) {
  Forest f(4);
  Forest::Table held = f.insert({1, 2, 3, 4});
  f.tree.reset();
  EXPECT_EQ(f.pools[0]->n_cached(), 0);
  EXPECT_EQ(f.pools[0]->n_free(), 2);
  held.clear();
  EXPECT_EQ(f.pools[0]->n_free(), 4);
}

// salt 0 ─ [1 2] ─ [3 4] ┬ salt 7 ─ [5 6]
//                        └ salt 8 ─ [5 6]
TEST(PrefixTree, WhatIsPublicIsSharedAcrossSaltsAndNothingBehindIt) {
  Forest forest;
  const Tokens tokens{1, 2, 3, 4, 5, 6};
  const auto of = [&](uint64_t salt, int n_public) { return Prefix{tokens, {.salt = salt}, {}, n_public}; };
  const auto one = forest.insert_prefix(of(7, 5));  // its third block is not public as a whole
  EXPECT_EQ(forest.n_found(of(7, 5)), 3);
  EXPECT_EQ(forest.n_found(of(8, 5)), 2);
  EXPECT_EQ(forest.n_found(of(0, 0)), 2) << "salt 0 is everybody's";
  EXPECT_EQ(forest.n_found(of(7, 0)), 0) << "who does not say that it is public keeps it to itself";
  EXPECT_EQ(forest.n_found(of(7, 2)), 1);
  const auto two = forest.insert_prefix(of(8, 5));
  EXPECT_EQ(forest.tree->n_nodes(), 4);
  EXPECT_EQ(ids(two)[1], ids(one)[1]);
  EXPECT_NE(ids(two)[2], ids(one)[2]);
  EXPECT_EQ(forest.n_found(of(8, 5)), 3);
  const auto all = forest.insert_prefix(of(9, 6));
  EXPECT_EQ(forest.n_found(of(10, 6)), 3) << "a prompt that is public to its end";
}

// --- what is known without being in memory: (a b) is elsewhere, <a b> loading ---

// A forest with a tier that keeps everything, and the names of what it has kept, in order.
struct Kept {
  explicit Kept(int n_elsewhere = 4) {
    forest.tree = std::make_unique<PrefixTree>(
        std::vector<PrefixTree::Group>{{KvGroup{}, forest.pools[0].get()}}, kBlockTokens,
        PrefixTreeOptions{.keep =
                              [this](const LeavingBlock& block) {
                                names.push_back(block.name);
                                spelled.emplace_back(block.tokens.begin(), block.tokens.end());
                                return keeps;
                              },
                          .n_elsewhere = n_elsewhere});
  }
  std::vector<int32_t> missing(const Tokens& tokens, const Forest::Table& table = {}) {
    return forest.tree->missing({tokens, {}, {}}, static_cast<int>(tokens.size()) / kBlockTokens, table).nodes;
  }
  Forest forest;
  std::vector<Hash128> names;
  std::vector<Tokens> spelled;
  bool keeps = true;
};

//  root ─ [1 2] ─ [3 4]   →   [1 2] ─ (3 4)   →   (1 2) ─ (3 4)
TEST(PrefixTreeTier, WhatIsKeptStaysKnownAndIsNotFound) {
  Kept k;
  k.forest.insert({1, 2, 3, 4});
  EXPECT_EQ(k.forest.tree->evict(1), 1);
  EXPECT_EQ(k.forest.tree->check(), "");
  EXPECT_EQ(k.spelled, (std::vector<Tokens>{{3, 4}}));
  EXPECT_EQ(k.forest.n_known({1, 2, 3, 4}), 1U);
  EXPECT_EQ(k.missing({1, 2, 3, 4}).size(), 1U);
  EXPECT_EQ(k.missing({1, 2, 3, 5}).size(), 0U);
  EXPECT_EQ(k.forest.tree->evict(1), 1);
  EXPECT_EQ(k.forest.pools[0]->n_free(), 16);
  EXPECT_EQ(k.forest.tree->n_elsewhere(), 2);
  EXPECT_EQ(k.missing({1, 2, 3, 4}).size(), 2U);
  EXPECT_EQ(k.names[1], k.forest.tree->names({Tokens{1, 2}, {}, {}}, 1)[0]);
}

//  [1 2] ─ (3 4)   →   [1 2] ─ <3 4>   →   [1 2] ─ [3 4]
TEST(PrefixTreeTier, WhatIsLoadingIsFoundWhenItHasArrived) {
  Kept k;
  k.forest.insert({1, 2, 3, 4});
  k.forest.tree->evict(1);
  const Forest::Table held = k.forest.match({1, 2});
  PrefixTree::Blocks room;
  room.push_back(k.forest.pools[0]->allocate());
  k.forest.tree->load(k.missing({1, 2, 3, 4}).at(0), room);
  EXPECT_EQ(k.forest.tree->check(), "");
  EXPECT_EQ(k.forest.n_known({1, 2, 3, 4}), 1U);
  const Tokens tokens{1, 2, 3, 4};
  EXPECT_TRUE(k.forest.tree->missing({tokens, {}, {}}, 2, held).loading);
  EXPECT_EQ(k.forest.tree->evict(9), 0);
  k.forest.tree->arrived(room[0].id());
  EXPECT_EQ(k.forest.tree->check(), "");
  EXPECT_EQ(ids(k.forest.match(tokens))[1], room[0].id());
}

//  [1 2] ─ <3 4>, and somebody computes [3 4]: theirs is found, and the room is the loader's alone
TEST(PrefixTreeTier, WhoComputesOvertakesWhoLoads) {
  Kept k;
  k.forest.insert({1, 2, 3, 4});
  k.forest.tree->evict(1);
  PrefixTree::Blocks room;
  room.push_back(k.forest.pools[0]->allocate());
  k.forest.tree->load(k.missing({1, 2, 3, 4}).at(0), room);
  const Forest::Table mine = k.forest.insert({1, 2, 3, 4});
  EXPECT_EQ(k.forest.pools[0]->n_refs(room[0].id()), 1);
  k.forest.tree->arrived(room[0].id());
  k.forest.tree->lost(room[0].id());
  EXPECT_EQ(k.forest.tree->check(), "");
  EXPECT_EQ(ids(k.forest.match({1, 2, 3, 4})), ids(mine));
}

//  [1 2] ┬ (3 4) ─ (5 6)     the tier keeps [1 2] no more: nobody could come by (3 4)
//        └ (7 8)
TEST(PrefixTreeTier, WhatIsNotKeptTakesWhatIsKnownBelowIt) {
  Kept k;
  k.forest.insert({1, 2, 3, 4, 5, 6});
  k.forest.insert({1, 2, 7, 8});
  k.forest.tree->evict(3);
  EXPECT_EQ(k.forest.tree->n_elsewhere(), 3);
  k.keeps = false;
  k.forest.tree->evict(1);
  EXPECT_EQ(k.forest.tree->check(), "");
  EXPECT_EQ(k.forest.tree->n_nodes(), 0);
}

TEST(PrefixTreeTier, TheLongestUnusedIsForgottenWhereTooMuchIsElsewhere) {
  Kept k(2);
  for (const Token t : {1, 3, 5}) k.forest.insert({t, t});
  k.forest.tree->evict(3);
  EXPECT_EQ(k.forest.tree->check(), "");
  EXPECT_EQ(k.forest.tree->n_elsewhere(), 2);
  EXPECT_EQ(k.missing({1, 1}).size(), 0U);
  EXPECT_EQ(k.missing({5, 5}).size(), 1U);
}

// After a restart: the names are the same, so a tier that has lasted says what it has.
TEST(PrefixTreeTier, NamesAreTheSameInEveryTreeAndATierCanTeachThem) {
  Kept before, after;
  before.forest.insert({1, 2, 3, 4});
  before.forest.tree->evict(2);
  const Tokens tokens{1, 2, 3, 4, 5, 6};
  const std::vector<Hash128> names = after.forest.tree->names({tokens, {}, {}}, 3);
  EXPECT_EQ(names[1], before.names[0]);
  EXPECT_EQ(names[0], before.names[1]);
  const uint8_t groups[] = {1, 1};
  EXPECT_EQ(after.forest.tree->learn({tokens, {}, {}}, 0, groups), 2);
  EXPECT_EQ(after.forest.tree->check(), "");
  EXPECT_EQ(after.missing(tokens).size(), 2U);
  const auto with = [&](const CacheKey& key, std::span<const Extra> extras, int n_public) {
    return after.forest.tree->names({tokens, key, extras, n_public}, 3)[2];
  };
  const std::vector<Extra> image = {{2, 3, {5, 5}}};
  for (const Hash128& other : {with({1, 0, 0}, {}, 0), with({0, 1, 0}, {}, 0), with({0, 0, 1}, {}, 0),
                               with({}, image, 0), with({0, 0, 1}, {}, 4)}) {
    EXPECT_NE(other, names[2]);
  }
}

// What is stored under a name is found under it by every later version, or is lost: a change here is a new format.
TEST(PrefixTreeTier, NamesNeverChange) {
  Kept k;
  const Tokens tokens{1, 2, 3, 4};
  const std::vector<Extra> image = {{2, 1, {5, 6}}};
  const auto names = k.forest.tree->names({tokens, {7, 8, 9}, image, 2}, 2);
  EXPECT_EQ(to_hex(names[0]), "a4cae5f9b1881d19fc47b29a0a22360c");
  EXPECT_EQ(to_hex(names[1]), "925fb092628c3dfaa3f4179057716e21");
}

}  // namespace
}  // namespace quire
