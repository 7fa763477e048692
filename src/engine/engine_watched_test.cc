// Who watches an engine's blocks knows what is in its memory: computed, evicted, brought back by a tier.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "engine/test_tiered.h"
#include "engine/watched_engine.h"
#include "kv/prefix_tree.h"
#include "kv/tiers/disk_tier.h"
#include "kv/tiers/test_folder.h"

namespace quire {
namespace {

struct Watcher final : BlockWatcher {
  void stored(const LeavingBlock& block) override {
    QR_CHECK(block.parent == Hash128() || blocks.contains(block.parent), "a child comes before its parent");
    const bool is_new = blocks.emplace(block.name, std::vector<Token>(block.tokens.begin(), block.tokens.end())).second;
    QR_CHECK(is_new, "a block is told twice");
    ++n_stored;
  }
  void removed(const Hash128& name) override { QR_CHECK(blocks.erase(name) == 1, "a block goes that was not there"); }
  void step_ended() override { ++n_steps; }

  std::map<Hash128, std::vector<Token>> blocks;
  int n_stored = 0, n_steps = 0;
};

std::unique_ptr<Engine> watched(TieredEngine& t, Watcher& watcher, std::vector<std::shared_ptr<Tier>> tiers) {
  EngineEnv env;
  env.clock = &t.clock;
  env.tiers = std::move(tiers);
  auto made = make_watched_engine(t.model, t.ops, t.wanted, env, &watcher);
  QR_CHECK(made.has_value(), made ? "" : made.error().message);
  return std::move(*made);
}

TEST(WatchedEngine, TellsOfWhatIsComputedInOrderAndOfWhatIsEvicted) {
  Watcher watcher;
  TieredEngine t(40, 0);
  t.engine = watched(t, watcher, {});
  const auto prompt = [] { return request_of(1, 100); };
  run_right(t, prompt);
  EXPECT_EQ(std::ssize(watcher.blocks), t.engine->snapshot().n_indexed_blocks);
  const std::vector<Token> tokens = prompt().prompt;
  const std::vector<Token> first(tokens.begin(), tokens.begin() + t.wanted.block_tokens);
  EXPECT_EQ(std::ranges::count(watcher.blocks, first, &std::pair<const Hash128, std::vector<Token>>::second), 1);
  for (uint64_t seed = 2; seed <= 12; ++seed) {
    run_right(t, [=] { return request_of(seed, 200); });
    EXPECT_EQ(std::ssize(watcher.blocks), t.engine->snapshot().n_indexed_blocks);
  }
  EXPECT_GT(watcher.n_stored, std::ssize(watcher.blocks)) << "nothing was evicted";
  EXPECT_GT(watcher.n_steps, 12);
}

// Memory holds a fraction of what is asked for, in turn: what left is told of again as it is brought.
TEST(WatchedEngine, TellsOfWhatATierBrings) {
  TestDisk disk;
  Watcher watcher;
  for (const int window : {0, 40}) {
    TieredEngine t(40, window);
    DiskTierOptions options;
    options.store.most_bytes = int64_t{8} << 20;
    const KvLayout& layout = t.model.info().kv_layout;
    options.store.shape = {t.model.info().fingerprint, t.wanted.block_tokens, {}};
    for (int g = 0; g < layout.n_groups(); ++g)
      options.store.shape.group_bytes.push_back(layout.block_bytes(g, t.wanted.block_tokens));
    auto opened = DiskTier::open(std::make_unique<TestFolder>(disk), options, t.system);
    ASSERT_TRUE(opened.has_value());
    const std::shared_ptr<DiskTier> tier = std::move(*opened);
    watcher = Watcher();
    t.engine = watched(t, watcher, {tier});
    for (int round = 0; round < 3; ++round) {
      for (uint64_t seed = 1; seed <= 6; ++seed) {
        run_right(t, [=] { return request_of(seed, 200); });
        tier->wait_until_written();
        EXPECT_EQ(std::ssize(watcher.blocks), t.engine->snapshot().n_indexed_blocks);
      }
    }
    EXPECT_GT(t.engine->stats().n_loaded_tokens, 0);
    t.engine->stop();
    t.engine.reset();
  }
}

// Of an engine without a prefix cache there is nothing to tell.
TEST(WatchedEngine, HearsNothingWithoutAPrefixCache) {
  Watcher watcher;
  TieredEngine t(64, 0);
  t.wanted.prefix_cache = false;
  t.engine = watched(t, watcher, {});
  run_right(t, [] { return request_of(1, 100); });
  EXPECT_EQ(watcher.n_stored, 0);
}

}  // namespace
}  // namespace quire
