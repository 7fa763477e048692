// An engine with a tier below memory: what an earlier engine stored is found, no answer changes whatever the tier does,
// and nobody waits for it longer than computing takes.
#include <gtest/gtest.h>

#include "engine/test_tiered.h"
#include "kv/tiers/disk_tier.h"
#include "kv/tiers/test_folder.h"

namespace quire {
namespace {

using Op = TestDisk::Op;

constexpr int kCtx = TieredEngine::kCtx;

struct TierKnobs {
  int n_blocks = 0;  // 0: plenty
  int window = 0;
  int64_t disk_bytes = int64_t{8} << 20;
  bool overlaps = false;
};

// An engine and its disk tier; the disk is the test's and outlives it.
struct TierEngine : TieredEngine {
  explicit TierEngine(TestDisk& disk, const TierKnobs& knobs = {})
      : TieredEngine(knobs.n_blocks == 0 ? 1024 : knobs.n_blocks, knobs.window) {
    DiskTierOptions options;
    options.store.most_bytes = knobs.disk_bytes;
    options.store.retain_bytes = knobs.disk_bytes / 4;
    const KvLayout& layout = model.info().kv_layout;
    options.store.shape = {model.info().fingerprint, wanted.block_tokens, {}};
    for (int g = 0; g < layout.n_groups(); ++g)
      options.store.shape.group_bytes.push_back(layout.block_bytes(g, wanted.block_tokens));
    auto opened = DiskTier::open(std::make_unique<TestFolder>(disk), options, system);
    QR_CHECK(opened.has_value());
    tier = std::move(*opened);
    wanted.overlap = knobs.overlaps;
    open(tier);
  }
  void finish() {
    engine->stop();
    engine.reset();
  }

  std::shared_ptr<DiskTier> tier;
};

TEST(EngineTier, ARestartedEngineHitsWhatAnEarlierOneStored) {
  for (const int window : {0, 40}) {
    TestDisk disk;
    const auto request = [] { return request_of(1, 200); };
    {
      TierEngine t(disk, {.window = window});
      EXPECT_EQ(run_right(t, request)->usage.n_cached, 0);
      const auto again = run_right(t, request);
      EXPECT_EQ(again->usage.n_cached, 192);
      EXPECT_EQ(again->usage.n_disk, 0) << "it was in memory";
      t.finish();
    }
    TierEngine t(disk, {.window = window});
    const auto heard = run_right(t, request);
    EXPECT_EQ(heard->usage.n_cached, 192);
    EXPECT_EQ(heard->usage.n_disk, 192);
    EXPECT_EQ(t.engine->stats().n_loads, 1);
    EXPECT_EQ(t.engine->stats().n_loaded_tokens, 192);
    const auto longer = run_right(t, [] {
      Request out = request_of(1, 200);
      const auto more = random_tokens(2, 100);
      out.prompt.insert(out.prompt.end(), more.begin(), more.end());
      return out;
    });
    EXPECT_EQ(longer->usage.n_cached, 192);
    EXPECT_EQ(longer->usage.n_disk, 0) << "it is in memory again";
  }
}

TEST(EngineTier, AnswersAreStoredAsWellAndTheNextTurnFindsThem) {
  TestDisk disk;
  const auto first = [] { return request_of(1, 100, 60); };
  ExpectedAnswer said;
  {
    TierEngine t(disk);
    said = run_right(t, first)->answer;
    t.finish();
  }
  TierEngine t(disk);
  const auto next = [&] {
    Request out = first();
    out.prompt.insert(out.prompt.end(), said.tokens.begin(), said.tokens.end());
    out.prompt.push_back(1);
    out.max_tokens = 4;
    return out;
  };
  EXPECT_EQ(run_right(t, next)->usage.n_disk, 144);
}

TEST(EngineTier, SaltsKeepWhatIsStoredApart) {
  TestDisk disk;
  const auto salted = [](uint64_t salt, int n_public) {
    return [salt, n_public] {
      Request out = request_of(1, 100);
      out.cache_salt = salt;
      out.n_public = n_public;
      return out;
    };
  };
  {
    TierEngine t(disk);
    run_right(t, salted(5, 40));
    t.finish();
  }
  TierEngine t(disk);
  EXPECT_EQ(run_right(t, salted(6, 40))->usage.n_disk, 32) << "what is public";
  EXPECT_EQ(run_right(t, salted(6, 0))->usage.n_disk, 0);
  EXPECT_EQ(run_right(t, salted(5, 40))->usage.n_disk, 64);
}

// Memory holds a fraction of what is asked for, in turn: what leaves it is brought back.
TEST(EngineTier, WhatLeavesMemoryIsBroughtBack) {
  TestDisk disk;
  TierEngine t(disk, {.n_blocks = 40});
  int64_t n_disk = 0;
  for (int round = 0; round < 4; ++round) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      n_disk += run_right(t, [=] { return request_of(seed, 200); })->usage.n_disk;
      t.tier->wait_until_written();
    }
  }
  EXPECT_GE(n_disk, 3 * 6 * 192 / 2);
}

// Two that do not fit together: the second is sent back, and the first needs most of what it had.
TEST(EngineTier, WhatWasPreemptedComesBackFromDisk) {
  for (const bool stores : {false, true}) {
    TestDisk disk;
    disk.fails = [stores](Op op, const std::string&) { return op == Op::write && !stores; };
    TierEngine t(disk, {.n_blocks = 40});
    const auto first = t.submit(request_of(1, 200, 300)), second = t.submit(request_of(2, 200, 150));
    for (int i = 0; !second->done(); ++i) {
      t.step();
      t.tier->wait_until_written();
      ASSERT_LT(i, 60'000);
    }
    EXPECT_EQ(first->answer, alone(request_of(1, 200, 300), kCtx));
    EXPECT_EQ(second->answer, alone(request_of(2, 200, 150), kCtx));
    const EngineStats stats = t.engine->stats();
    EXPECT_EQ(stats.n_preempted, 1);
    const int64_t n_recomputed = stats.spent.computed[static_cast<size_t>(Cause::recomputed)];
    if (!stores) {
      EXPECT_GT(n_recomputed, 150);
    } else {
      EXPECT_LE(n_recomputed, 16) << "what was no whole block";
      EXPECT_GT(stats.n_loaded_tokens, 150);
    }
  }
}

// A small disk, and more asked for than it has room for: what was to stay is found by the next process.
TEST(EngineTier, WhatIsToStayOutlivesOthersOnDisk) {
  TestDisk disk;
  const TierKnobs knobs{.n_blocks = 40, .disk_bytes = 1 << 16};
  {
    TierEngine t(disk, knobs);
    t.clock.advance_ns(t.system.now_ns());  // the tier's
    run_right(t, [] {
      Request out = request_of(1, 200);
      out.retention = {{0, 200, 80, int64_t{3600} * 1'000'000'000}};
      return out;
    });
    EXPECT_GT(t.engine->stats().tiers.at(0).retained_bytes, 0);
    for (uint64_t seed = 2; seed <= 60; ++seed) {
      run_right(t, [=] { return request_of(seed, 200); });
      t.tier->wait_until_written();
    }
    EXPECT_GT(t.engine->stats().tiers.at(0).n_dropped_segments, 4);
    t.finish();
  }
  TierEngine t(disk, knobs);
  EXPECT_EQ(run_right(t, [] { return request_of(1, 200); })->usage.n_disk, 192);
  EXPECT_EQ(run_right(t, [] { return request_of(2, 200); })->usage.n_disk, 0);
}

TEST(EngineTier, ThoseWhoWantTheSameLoadItOnceAndOthersGoOn) {
  TestDisk disk;
  const auto request = [] { return request_of(1, 200, 3); };
  {
    TierEngine t(disk);
    run_right(t, request);
    t.finish();
  }
  std::atomic<bool> hold{true};
  TierEngine t(disk);
  disk.fails = [&](Op op, const std::string&) {
    while (op == Op::read && hold) std::this_thread::yield();
    return false;
  };
  const auto first = t.submit(request()), second = t.submit(request());
  const auto other = t.submit(request_of(9, 100, 8));
  t.run(*other);
  EXPECT_FALSE(first->done() || second->done());
  EXPECT_EQ(other->answer, alone(request_of(9, 100, 8), kCtx));
  hold = false;
  t.run(*first);
  t.run(*second);
  EXPECT_EQ(first->answer, alone(request(), kCtx));
  EXPECT_EQ(second->answer, first->answer);
  EXPECT_EQ(t.engine->stats().n_loads, 1);
  EXPECT_EQ(first->usage.n_disk + second->usage.n_disk, 192);
  EXPECT_EQ(first->usage.n_cached, 192);
}

// Who loads has no row in steps that overlap, and comes in behind them.
TEST(EngineTier, StepsOverlapWhileSomebodyLoads) {
  TestDisk disk;
  const auto request = [] { return request_of(1, 200, 3); };
  {
    TierEngine t(disk);
    run_right(t, request);
    t.finish();
  }
  std::atomic<bool> hold{true};
  TierEngine t(disk, {.overlaps = true});
  disk.fails = [&](Op op, const std::string&) {
    while (op == Op::read && hold) std::this_thread::yield();
    return false;
  };
  const auto loads = t.submit(request());
  const auto other = t.submit(request_of(9, 40, 120));
  for (int i = 0; i < 40; ++i) t.step();
  const int64_t n_ahead = t.engine->stats().n_steps_ahead;
  EXPECT_GT(n_ahead, 30);
  hold = false;
  for (int i = 0; !loads->done() && i < 60'000; ++i) {
    t.step();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_FALSE(other->done()) << "it waits for nobody's end";
  t.run(*other);
  EXPECT_EQ(loads->answer, alone(request(), kCtx));
  EXPECT_EQ(loads->usage.n_disk, 192);
  EXPECT_EQ(other->answer, alone(request_of(9, 40, 120), kCtx));
}

TEST(EngineTier, ALoadThatStallsIsOvertakenByComputing) {
  TestDisk disk;
  const auto request = [] { return request_of(1, 200); };
  {
    TierEngine t(disk);
    run_right(t, request);
    t.finish();
  }
  std::atomic<bool> hold{true};
  TierEngine t(disk);
  disk.fails = [&](Op op, const std::string&) {
    while (op == Op::read && hold) std::this_thread::yield();
    return false;
  };
  t.step_ns = 20'000'000;
  const auto heard = run_right(t, request);
  EXPECT_EQ(heard->usage.n_cached, 0);
  EXPECT_EQ(t.engine->stats().n_loads_overtaken, 1);
  hold = false;
}

TEST(EngineTier, WhatIsSoonerComputedIsNotLoaded) {
  TestDisk disk;
  const auto request = [] { return request_of(1, 200); };
  {
    TierEngine t(disk);
    run_right(t, request);
    run_right(t, [] { return request_of(2, 200); });
    t.finish();
  }
  TierEngine t(disk);
  disk.fails = [&](Op op, const std::string&) {  // a slow disk
    if (op == Op::read) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return false;
  };
  t.pass_ns = 1000;  // and a fast model
  EXPECT_GT(run_right(t, request)->usage.n_disk, 0) << "nothing is known yet";
  EXPECT_EQ(run_right(t, [] { return request_of(2, 200); })->usage.n_disk, 0);
  EXPECT_EQ(t.engine->stats().n_loads_declined, 1);
}

TEST(EngineTier, CancellingWhileItLoadsLeavesNothingBehind) {
  TestDisk disk;
  {
    TierEngine t(disk);
    run_right(t, [] { return request_of(1, 200); });
    t.finish();
  }
  std::atomic<bool> hold{true};
  TierEngine t(disk);
  disk.fails = [&](Op op, const std::string&) {
    while (op == Op::read && hold) std::this_thread::yield();
    return false;
  };
  const auto heard = t.submit(request_of(1, 200));
  t.step();
  t.step();
  EXPECT_TRUE(t.engine->snapshot().seqs.at(0).running);
  t.engine->cancel(t.engine->snapshot().seqs.at(0).id);
  t.step();
  EXPECT_EQ(heard->answer.finish, Finish::cancelled);
  EXPECT_EQ(t.engine->stats().n_free_blocks, t.engine->stats().n_blocks);
  hold = false;
  EXPECT_EQ(run_right(t, [] { return request_of(1, 200); })->usage.n_disk, 192);
}

// Every kind of call fails at random, bytes flip, files are cut and vanish; engines come and go. No answer changes.
TEST(EngineTier, NoFaultOfTheDiskChangesAnAnswer) {
  int64_t n_disk = 0, n_errors = 0, n_damaged = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    TestDisk disk;
    Rng rng(seed);
    Rng of_disk(seed + 1000);
    for (int life = 0; life < 6; ++life) {
      {
        const std::lock_guard lock(disk.mutex);
        disk.fails = {};
        for (auto& [name, bytes] : disk.files) {
          const int64_t what = rng.between(0, 5);
          const auto at = static_cast<size_t>(rng.between(0, std::max<int64_t>(std::ssize(bytes) - 1, 0)));
          if (what == 0 && !bytes.empty()) bytes[at] ^= std::byte{4};
          if (what == 1) bytes.resize(at);
        }
        if (rng.between(0, 5) == 0) disk.files.clear();
      }
      TierEngine t(disk, {.n_blocks = 40, .window = seed % 2 == 0 ? 0 : 40});
      {
        const std::lock_guard lock(disk.mutex);
        disk.fails = [&](Op, const std::string&) { return of_disk.between(0, 19) == 0; };
      }
      for (int i = 0; i < 8; ++i) {
        const auto which = static_cast<uint64_t>(rng.between(1, 4));
        n_disk += run_right(t, [=] { return request_of(which, 150); })->usage.n_disk;
      }
      const TierStats stats = t.engine->stats().tiers.at(0);
      n_errors += stats.n_read_errors + stats.n_write_errors;
      n_damaged += stats.n_damaged;
      t.finish();
    }
  }
  EXPECT_GT(n_disk, 1000);
  EXPECT_GT(n_errors, 10);
  EXPECT_GT(n_damaged, 1);
}

TEST(EngineTier, OptionsNameAFolderAndItsErrors) {
  EngineOptions wanted;
  wanted.kv_disk = testing::TempDir() + "no/such/folder";
  EXPECT_NE(error_of(wanted).find("kv_disk: cannot make the folder"), std::string::npos) << error_of(wanted);
  wanted.kv_disk = testing::TempDir() + "quire-engine-tier";
  wanted.kv_disk_bytes = 1000;
  EXPECT_NE(error_of(wanted).find("at least"), std::string::npos) << error_of(wanted);
  wanted.kv_disk_bytes = 1 << 20;
  EXPECT_EQ(error_of(wanted), "");
  wanted.prefix_cache = false;
  EXPECT_NE(error_of(wanted).find("prefix cache"), std::string::npos) << error_of(wanted);
}

}  // namespace
}  // namespace quire
