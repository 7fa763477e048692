#include "route/prefix_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"

namespace quire {
namespace {

using Names = std::vector<uint64_t>;

TEST(PrefixMap, FindsTheLongestBeginningFirstAndForgetsTheEndsFirst) {
  PrefixMap map(6);
  const Names a{1, 2, 3, 4}, b{1, 2, 9, 10};
  map.add(a, 7);
  map.add(b, 8);
  const auto hits = map.find(a);
  ASSERT_EQ(hits.size(), 2U);
  EXPECT_EQ(hits[0].holder, 7U);
  EXPECT_EQ(hits[0].n_blocks, 4);
  EXPECT_EQ(hits[1].holder, 8U);
  EXPECT_EQ(hits[1].n_blocks, 2);
  map.add(Names{20, 21}, 7);
  EXPECT_EQ(map.n_blocks(), 6);
  EXPECT_EQ(map.find(a)[0].n_blocks, 2);  // 4 and 3 went, 1 and 2 are shared
  for (uint64_t holder = 1; holder < 9; ++holder) map.add(b, holder);
  EXPECT_EQ(map.find(b).size(), 4U);  // the latest four
}

// Everybody's prompts begin alike, and only the latest few are remembered of that beginning.
TEST(PrefixMap, WhoHoldsTheEndIsFoundThoughManyWereGivenTheBeginningSince) {
  PrefixMap map(1000);
  map.add(Names{1, 2, 3}, 1);
  for (uint64_t holder = 2; holder < 40; ++holder) map.add(Names{1, 100 + holder}, holder);
  const auto hits = map.find(Names{1, 2, 3, 4});
  ASSERT_EQ(hits.size(), 5U);
  EXPECT_EQ(hits[0].holder, 1U);
  EXPECT_EQ(hits[0].n_blocks, 3);
  EXPECT_EQ(hits[1].holder, 39U);
  EXPECT_EQ(hits[1].n_blocks, 1);
}

TEST(PrefixMap, WhoIsForgottenTakesNoPlaceOfALivingOne) {
  PrefixMap map(10);
  const Names a{1, 2, 3};
  for (uint64_t holder = 1; holder <= 4; ++holder) map.add(a, holder);
  map.forget(3);
  EXPECT_EQ(map.find(a).size(), 3U);
  map.add(a, 5);
  Names holders;
  for (const PrefixMap::Hit& hit : map.find(a)) {
    holders.push_back(hit.holder);
    EXPECT_EQ(hit.n_blocks, 3);
  }
  EXPECT_EQ(holders, (Names{5, 4, 2, 1}));
  map.forget(9);
  EXPECT_EQ(map.find(a).size(), 4U);
}

TEST(PrefixMap, HasAsManyNodesAsItsBoundHasRoomFor) {
  constexpr int64_t kBlocks = 4 * PrefixMap::kFewNodes * PrefixMap::kBlocksOfNode;
  PrefixMap map(kBlocks);
  for (uint64_t i = 1; i <= 20'000; ++i) map.add(Names{i}, 1);
  EXPECT_EQ(map.n_nodes(), 4 * PrefixMap::kFewNodes);
  EXPECT_EQ(map.n_blocks(), map.n_nodes());
  EXPECT_EQ(map.find(Names{20'000}).size(), 1U);
  EXPECT_TRUE(map.find(Names{1}).empty());
  Names longest(kBlocks);
  std::iota(longest.begin(), longest.end(), 1'000'000);
  map.add(longest, 2);
  EXPECT_EQ(map.n_blocks(), kBlocks);
  EXPECT_EQ(map.n_nodes(), 1);
  map.set_most_blocks(100);
  map.add(longest, 2);
  EXPECT_EQ(map.n_blocks(), 100);
  EXPECT_EQ(map.find(longest).front().n_blocks, 100);
}

// A dialogue is one node however many turns it has had, also where it goes back and forth between two holders.
TEST(PrefixMap, GrowingDialoguesFillItsBlocksAndNotItsNodes) {
  constexpr int64_t kBlocks = 4 * PrefixMap::kFewNodes * PrefixMap::kBlocksOfNode;
  constexpr size_t kDialogues = 1000, kAtOnce = 50, kTurns = 60;
  for (const uint64_t n_holders : {1U, 2U}) {
    PrefixMap map(kBlocks);
    std::vector<Names> dialogues(kDialogues, Names{1, 2, 3});  // what all have in common
    for (size_t from = 0; from < kDialogues; from += kAtOnce)
      for (size_t turn = 0; turn < kTurns; ++turn)
        for (size_t d = from; d < from + kAtOnce; ++d) {
          Names& names = dialogues[d];
          for (int i = 0; i < 2; ++i) names.push_back(random_bits(names.back(), d));
          map.add(names, 1 + (d + turn) % n_holders);
        }
    EXPECT_EQ(map.n_blocks(), kBlocks);
    EXPECT_LE(map.n_nodes(), static_cast<int64_t>(2 * kDialogues));
    int64_t n_whole = 0;
    for (const Names& names : dialogues) {
      const auto hits = map.find(names);
      n_whole += !hits.empty() && hits[0].n_blocks == std::ssize(names);
    }
    EXPECT_GE(n_whole, kBlocks / (2 * static_cast<int64_t>(kTurns) + 3));
  }
}

TEST(PrefixMap, WhatOnlyTheForgottenHoldGoesByAndBy) {
  PrefixMap map(1 << 20);
  const auto names = [](uint64_t i) { return Names{1, 2, 1000 + i, 5000 + i}; };
  for (uint64_t i = 0; i < 1000; ++i) map.add(names(i), 1 + i % 4);
  EXPECT_EQ(map.n_blocks(), 2002);
  EXPECT_FALSE(map.sweep());
  map.forget(2);
  map.forget(7);  // never held anything
  int n_looks = 1;
  while (map.sweep()) ++n_looks;
  EXPECT_NEAR(n_looks, 1001.0 / PrefixMap::kSweptAtOnce, 2);
  EXPECT_EQ(map.n_blocks(), 1502);
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(map.find(names(i))[0].n_blocks, i % 4 == 1 ? 2 : 4);
  // While it is swept, others are given prompts, new ones and those of the next that goes.
  map.forget(3);
  for (uint64_t i = 2; i < 1000; i += 8) map.add(names(i), 4);
  map.forget(1);
  for (uint64_t i = 0; i < 200; ++i) map.add(names(2000 + i), 4);
  while (map.sweep()) continue;
  EXPECT_EQ(map.n_blocks(), 2 + 2 * (250 + 125 + 200));
  map.forget(4);
  while (map.sweep()) continue;
  EXPECT_EQ(map.n_blocks(), 0);
  EXPECT_EQ(map.n_nodes(), 0);
}

// Half of the holders go, and with them half of the room: what the others hold fits, so none of it goes.
TEST(PrefixMap, WhereRoomFallsTheForgottenGoFirstAndFewAtOnce) {
  constexpr int64_t kBlocks = 4 * PrefixMap::kFewNodes * PrefixMap::kBlocksOfNode;
  PrefixMap map(kBlocks);
  const auto names = [](uint64_t i) {
    Names out(16);
    std::iota(out.begin(), out.end(), 1 + 16 * i);
    return out;
  };
  const auto n_found = [&](uint64_t from, uint64_t to) {
    int64_t n = 0;
    for (uint64_t i = from; i < to; ++i) n += !map.find(names(i)).empty();
    return n;
  };
  constexpr uint64_t kPrompts = 4 * PrefixMap::kFewNodes, kLiving = kPrompts / 2;
  for (uint64_t i = 0; i < kPrompts; ++i) map.add(names(i), i < kLiving ? 1 : 2);  // the living one's are the oldest
  EXPECT_EQ(map.n_blocks(), kBlocks);
  map.forget(2);
  map.set_most_blocks(kBlocks / 2);
  EXPECT_EQ(map.n_blocks(), kBlocks);
  for (uint64_t i = 0; map.n_blocks() > kBlocks / 2; ++i) {
    ASSERT_LT(i, kPrompts);
    const int64_t had = map.n_nodes();
    map.add(names(i % kLiving), 1);
    ASSERT_GE(map.n_nodes(), had - PrefixMap::kSweptAtOnce);
  }
  EXPECT_EQ(n_found(0, kLiving), static_cast<int64_t>(kLiving));
  EXPECT_EQ(n_found(kLiving, kPrompts), 0);
  // With nobody forgotten it is the oldest that go, and meanwhile it does not grow, whatever comes.
  while (map.sweep()) continue;
  map.set_most_blocks(PrefixMap::kBlocksOfNode);
  Names longest(1000);
  std::iota(longest.begin(), longest.end(), 1'000'000);
  while (map.n_blocks() > PrefixMap::kBlocksOfNode) {
    const int64_t had = map.n_blocks(), had_nodes = map.n_nodes();
    for (uint64_t& name : longest) name += longest.size();
    map.add(longest, 1);
    ASSERT_LT(map.n_blocks(), had);
    ASSERT_GE(map.n_nodes(), had_nodes + 1 - PrefixMap::kDroppedAtOnce);
  }
}

// The same by blocks, each on its own.
class PlainMap {
 public:
  explicit PlainMap(size_t most) : most_(most) {}
  void add(const Names& names, uint64_t holder) {
    for (size_t i = names.size(); i-- > 0;) {
      const auto at = std::ranges::find(blocks_, names[i], &Block::name);
      Block block = at != blocks_.end() ? *at : Block{names[i], i > 0 ? names[i - 1] : 0, {}};
      if (at != blocks_.end()) blocks_.erase(at);
      std::erase(block.holders, holder);
      block.holders.insert(block.holders.begin(), holder);
      block.holders.resize(std::min<size_t>(4, block.holders.size()));
      blocks_.insert(blocks_.begin(), block);
    }
    blocks_.resize(std::min(most_, blocks_.size()));
  }
  void forget(uint64_t holder) {
    for (Block& block : blocks_) std::erase(block.holders, holder);
    const auto is_useless = [this](const Block& block) {
      return block.holders.empty() && std::ranges::find(blocks_, block.name, &Block::up) == blocks_.end();
    };
    auto at = std::ranges::find_if(blocks_, is_useless);
    for (; at != blocks_.end(); at = std::ranges::find_if(blocks_, is_useless)) blocks_.erase(at);
  }
  Names find(const Names& names) const {  // holders and their blocks by turns
    Names out, seen;
    size_t n = 0;
    while (n < names.size() && std::ranges::find(blocks_, names[n], &Block::name) != blocks_.end()) ++n;
    for (; n > 0; --n)
      for (const uint64_t holder : std::ranges::find(blocks_, names[n - 1], &Block::name)->holders) {
        if (std::ranges::find(seen, holder) != seen.end()) continue;
        seen.push_back(holder);
        out.insert(out.end(), {holder, n});
      }
    return out;
  }
  size_t n_blocks() const { return blocks_.size(); }

 private:
  struct Block {
    uint64_t name = 0, up = 0;
    Names holders;
  };
  const size_t most_;
  std::vector<Block> blocks_;  // the latest first
};

TEST(PrefixMap, IsWhatItWouldBeByBlocks) {
  Rng rng(11);
  PrefixMap map(60);
  PlainMap plain(60);
  uint64_t next = 6;  // the holder that follows the one who is forgotten
  Names alive{1, 2, 3, 4, 5};
  for (int i = 0; i < 3000; ++i) {
    Names names;
    uint64_t chain = 0;
    const int64_t length = rng.between(1, 14);
    for (int64_t k = 0; k < length; ++k)
      names.push_back(chain = random_bits(chain, static_cast<uint64_t>(rng.between(0, k < 4 ? 0 : 1))));
    uint64_t& holder = alive[static_cast<size_t>(rng.between(0, 4))];
    if (rng.between(0, 40) == 0) {
      map.forget(holder);
      while (map.sweep()) continue;
      plain.forget(holder);
      holder = next++;
    }
    Names found;
    for (const PrefixMap::Hit& hit : map.find(names))
      found.insert(found.end(), {hit.holder, static_cast<uint64_t>(hit.n_blocks)});
    ASSERT_EQ(found, plain.find(names)) << i;
    map.add(names, holder);
    plain.add(names, holder);
    ASSERT_EQ(static_cast<size_t>(map.n_blocks()), plain.n_blocks()) << i;
  }
}

// Names that nobody made as chains find less, and break nothing.
TEST(PrefixMap, NamesThatAreNoChainsAreBounded) {
  Rng rng(12);
  PrefixMap map(50);
  for (int i = 0; i < 20'000; ++i) {
    Names names(static_cast<size_t>(rng.between(0, 9)));
    for (uint64_t& name : names) name = static_cast<uint64_t>(rng.between(0, 12));
    map.add(names, static_cast<uint64_t>(rng.between(1, 9)));
    ASSERT_LE(map.n_blocks(), 50);
    ASSERT_LE(map.n_nodes(), map.n_blocks());
    for (const PrefixMap::Hit& hit : map.find(names)) ASSERT_LE(hit.n_blocks, std::ssize(names));
  }
}

}  // namespace
}  // namespace quire
