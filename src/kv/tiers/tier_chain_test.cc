// Several tiers as one: who is asked what, who brings what.
#include "kv/tiers/tier_chain.h"

#include <gtest/gtest.h>

#include <map>
#include <new>
#include <set>
#include <utility>
#include <vector>

namespace quire {
namespace {

// Says what it is told to.
struct ScriptedTier final : Tier {
  explicit ScriptedTier(TierPlace where) : where_(where) {}
  TierPlace place() const override { return where_; }
  TierWish wish(const LeavingBlock& block) override {
    offered.push_back(block.name.lo);
    return takes ? TierWish::wants : TierWish::refuses;
  }
  bool take(const Spelling& block, TierBlock bytes) override {
    if (lacks_memory) throw std::bad_alloc();
    taken.push_back({block.name.lo, std::move(bytes.bytes)});
    return takes;
  }
  uint8_t find(const Hash128& name) override { return knows.contains(name.lo) ? knows[name.lo] : uint8_t{0}; }
  std::shared_ptr<TierAnswer> ask(std::vector<Hash128> names) override {
    asked.clear();
    for (const Hash128& name : names) asked.push_back(name.lo);
    return is_asked ? answer = std::make_shared<TierAnswer>(std::move(names)) : nullptr;
  }
  void bring(const std::shared_ptr<TierRead>&, size_t begin, size_t end) override { brought.push_back({begin, end}); }
  int64_t predict_ns(int64_t n) override { return n == 0 ? ask_ns : n * block_ns; }
  TierStats stats() const override { return {.place = where_}; }
  void on_arrival(std::function<void()>) override {}
  void stop() override { stopped = true; }

  const TierPlace where_;
  bool takes = true, lacks_memory = false, is_asked = false, stopped = false;
  int64_t ask_ns = 0, block_ns = 1;
  std::map<uint64_t, uint8_t> knows;
  std::shared_ptr<TierAnswer> answer;
  std::vector<uint64_t> offered, asked;
  std::vector<std::pair<uint64_t, std::vector<std::byte>>> taken;
  std::vector<std::pair<size_t, size_t>> brought;
};

struct Two {
  std::shared_ptr<ScriptedTier> near = std::make_shared<ScriptedTier>(TierPlace::disk);
  std::shared_ptr<ScriptedTier> far = std::make_shared<ScriptedTier>(TierPlace::remote);
  TierChain chain{{near, far}};
};

std::vector<Hash128> path(uint64_t n) {
  std::vector<Hash128> out;
  out.reserve(n);
  for (uint64_t i = 0; i < n; ++i) out.push_back({i, 0});
  return out;
}

using Bytes = std::vector<uint8_t>;

// near  0 1 2 . . 5      far  asked for 3 4 5 6 7: has 3 4 5 6
TEST(TierChain, TheNearestBringsAndTheFarIsAskedForTheRest) {
  Two t;
  t.near->knows = {{0, 1}, {1, 1}, {2, 1}, {5, 1}};
  t.far->is_asked = true;
  const auto names = path(8);
  const auto search = t.chain.search(names, 1000);
  EXPECT_EQ(t.far->asked, (std::vector<uint64_t>{3, 4, 5, 6, 7}));
  EXPECT_FALSE(search->over());
  EXPECT_EQ(t.chain.found(*search).tiers, (Bytes{0, 0, 0})) << "what is known by now";
  t.far->answer->tell({1, 1, 1, 1});
  EXPECT_TRUE(search->over());
  const TierPath found = t.chain.found(*search);
  EXPECT_EQ(found.tiers, (Bytes{0, 0, 0, 1, 1, 0, 1}));
  EXPECT_EQ(found.groups, Bytes(7, 1));
  t.near->block_ns = 10;
  EXPECT_EQ(t.chain.predict_ns(found.tiers), 4 * 10 + 3);
  std::vector<Spelling> wanted(7);
  EXPECT_EQ(t.chain.read(std::move(wanted), found.tiers)->n_blocks(), 7U);
  using Ranges = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(t.near->brought, (Ranges{{0, 3}, {5, 6}}));
  EXPECT_EQ(t.far->brought, (Ranges{{3, 5}, {6, 7}}));
}

TEST(TierChain, OneThatAnswersSlowlyOrKnowsAllIsNotAskedAndNobodyIsWaitedFor) {
  Two t;
  t.far->is_asked = true;
  t.far->ask_ns = 2000;
  const auto names = path(3);
  EXPECT_TRUE(t.chain.search(names, 1000)->over());
  EXPECT_TRUE(t.far->asked.empty());
  t.far->ask_ns = 0;
  t.far->knows = {{0, 1}, {1, 1}, {2, 1}};
  const auto search = t.chain.search(names, 1000);
  EXPECT_TRUE(search->over());
  EXPECT_TRUE(t.far->asked.empty());
  EXPECT_EQ(t.chain.found(*search).tiers, (Bytes{1, 1, 1}));
}

TEST(TierChain, ASearchThatEndsLetsGoOfItsAnswers) {
  Two t;
  t.far->is_asked = true;
  {
    const auto search = t.chain.search(path(3), 1000);
  }
  EXPECT_TRUE(t.far->answer->abandoned());
}

TEST(TierChain, TheOneWithMoreGroupsBringsABlock) {
  Two t;
  t.near->knows = {{0, 1}, {1, 3}};
  t.far->knows = {{0, 3}, {1, 3}};
  const auto names = path(2);
  const TierPath found = t.chain.found(*t.chain.search(names, 1000));
  EXPECT_EQ(found.tiers, (Bytes{1, 0}));
  EXPECT_EQ(t.chain.find({0, 0}, 3), 1U);
  EXPECT_EQ(t.chain.find({0, 0}, 1), 0U);
  EXPECT_EQ(t.chain.find({7, 0}, 1), 2U);
}

TEST(TierChain, ABlockIsOfferedToAllAndTakenWhereAnyTakesIt) {
  Two t;
  const GroupBlocks blocks;
  const LeavingBlock block{{5, 0}, {}, {}, {}, {}, blocks};
  t.near->takes = false;
  EXPECT_TRUE(t.chain.offer(block, {}));
  t.far->takes = false;
  EXPECT_FALSE(t.chain.offer(block, {}));
  EXPECT_EQ(t.near->offered, (std::vector<uint64_t>{5, 5}));
  EXPECT_EQ(t.far->offered, (std::vector<uint64_t>{5, 5}));
  t.chain.stop();
  EXPECT_TRUE(t.near->stopped && t.far->stopped);
  EXPECT_EQ(t.chain.stats().at(1).place, TierPlace::remote);
}

// A device whose copies are done when the test says so.
struct SlowCopier final : Copier {
  bool copy(std::byte*, const std::byte*, int64_t) override { return false; }
  int64_t read(std::byte* to, const std::byte*, int64_t bytes) override {
    copies.push_back({to, bytes});
    return std::ssize(copies);
  }
  int64_t write(std::byte*, const std::byte*, int64_t) override { return kFailed; }
  CopyState state(int64_t copy, bool waits) override {
    if (copy < fails_before) return CopyState::failed;
    if (copy > n_done && !waits) return CopyState::under_way;
    for (; n_done < copy; ++n_done) {
      const auto& [to, bytes] = copies[static_cast<size_t>(n_done)];
      if (n_done + 1 >= fails_before) std::fill_n(to, bytes, static_cast<std::byte>(n_done + 1));
    }
    return CopyState::done;
  }
  void begin_writes() override {}
  void reuse(const std::byte*, int64_t) override {}

  std::vector<std::pair<std::byte*, int64_t>> copies;
  int64_t n_done = 0, fails_before = 0;
};

TEST(TierChain, WhatADeviceCopiesIsGivenWhenItIsThereAndOnce) {
  using Taken = std::vector<std::pair<uint64_t, std::vector<std::byte>>>;
  const auto bytes = [](int of) { return std::vector<std::byte>(8, static_cast<std::byte>(of)); };
  Two t;
  SlowCopier copier;
  std::vector<std::byte> nowhere(8);
  BlockPool pool(Buffer::of({nowhere.data(), [](std::byte*) {}}, 8), 1, 8);
  KvView memory{.groups = {KvGroupView{nowhere.data(), 8, 4, &copier}}, .n_groups = 1};
  const auto offer = [&](uint64_t name) {
    GroupBlocks blocks;
    blocks.push_back(pool.allocate());
    return t.chain.offer({{name, 0}, {}, {}, {}, {}, blocks}, memory);
  };
  EXPECT_TRUE(offer(1) && offer(2) && offer(1));
  EXPECT_EQ(copier.copies.size(), 2U) << "one copy of a block for all tiers";
  t.chain.settle(false);
  EXPECT_EQ(t.near->taken, Taken{});
  copier.state(1, true);
  t.chain.settle(false);
  EXPECT_EQ(t.near->taken, (Taken{{1, bytes(1)}}));
  EXPECT_EQ(t.far->taken, t.near->taken);
  copier.fails_before = 3;
  t.far->takes = false;
  EXPECT_TRUE(offer(3));
  t.chain.settle(true);
  EXPECT_EQ(t.near->taken, (Taken{{1, bytes(1)}, {3, bytes(3)}})) << "a copy that failed is nobody's";
  EXPECT_EQ(t.far->taken.size(), 1U) << "who did not want it is not given it";
  t.far->takes = t.near->lacks_memory = true;
  EXPECT_TRUE(offer(4));
  t.chain.settle(true);
  EXPECT_EQ(t.near->taken.size(), 2U);
  EXPECT_EQ(t.far->taken.back(), (std::pair{uint64_t{4}, bytes(4)})) << "one without memory stops nobody";
}

}  // namespace
}  // namespace quire
