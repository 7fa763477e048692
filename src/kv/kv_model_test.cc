// KvCache against a naive model (test_twin.h), by random operations.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/rng.h"
#include "base/sanitized.h"
#include "kv/test_twin.h"

namespace quire {
namespace {

struct What {
  int hash_bits = 0;
  bool windows = false, tier = false, segments = false, keeps = false, pins = false;
  std::string policy = "lru";
};

Knobs random_knobs(uint64_t seed, const What& what) {
  Rng rng(seed ^ 0x5eed);
  const int sizes[] = {1, 1, 2, 3, 4, 16};
  Knobs knobs;
  knobs.seed = seed;
  knobs.block_tokens = sizes[rng.between(0, 5)];
  knobs.n_blocks = static_cast<int>(rng.between(1, 14));
  knobs.n_vocab = static_cast<int>(rng.between(1, 3));
  knobs.n_keys = static_cast<int>(rng.between(1, 3));
  knobs.hash_bits = what.hash_bits;
  knobs.segments = what.segments;
  knobs.policy = what.policy;
  if (what.tier) {  // few paths, so that they are asked for again
    knobs.n_elsewhere = static_cast<int>(rng.between(1, 12));
    knobs.block_tokens = static_cast<int>(rng.between(1, 3));
    knobs.n_vocab = static_cast<int>(rng.between(1, 2));
    knobs.n_keys = 1;
  }
  if (what.windows) {
    knobs.window = static_cast<int>(rng.between(1, 3 * knobs.block_tokens));
    knobs.n_window_blocks = static_cast<int>(rng.between(1, knobs.n_blocks));
  }
  if (what.pins) {
    knobs.pins.n_pins = static_cast<int>(rng.between(1, 3));
    knobs.pins.n_blocks = {static_cast<int>(rng.between(1, knobs.n_blocks)), static_cast<int>(rng.between(0, 3))};
    knobs.pins.bytes = 8 * knobs.block_tokens * rng.between(1, 8);
  }
  if (!what.windows) return knobs;
  if (what.keeps) knobs.n_kept = static_cast<int>(rng.between(1, 2 * knobs.block_tokens));
  return knobs;
}

constexpr int kOps = 60, kOpsWithTier = 240;  // of one seed

// What is run on every commit, or as many operations as QUIRE_TEST_OPS says (./dev sim: a million).
uint64_t n_seeds_for(uint64_t n_wanted) {
  const char* ops = std::getenv("QUIRE_TEST_OPS");
  return ops != nullptr ? std::strtoull(ops, nullptr, 10) / kOps : n_wanted / (kSanitized ? 10 : 1);
}

// What came to pass, over all seeds: a test in which it never did would prove nothing.
struct Sums {
  int n_hits = 0, n_evicted = 0, n_refused = 0, n_copied = 0, n_window_evicted = 0, n_hits_behind_a_gap = 0;
  int n_kept = 0, n_arrived = 0, n_overtaken = 0, n_given_up = 0, n_lost = 0, n_learned = 0, n_forgotten = 0;
  int n_waits = 0, n_pinned = 0, n_pins_refused = 0, n_parts = 0;

  void add(const Twin& twin) {
    n_hits += twin.n_hits;
    n_evicted += twin.n_evicted;
    n_refused += twin.n_refused;
    n_copied += twin.n_copied;
    n_window_evicted += twin.n_window_evicted;
    n_hits_behind_a_gap += twin.n_hits_behind_a_gap;
    n_kept += twin.n_kept;
    n_arrived += twin.n_arrived;
    n_overtaken += twin.n_overtaken;
    n_given_up += twin.n_given_up;
    n_lost += twin.n_lost;
    n_learned += twin.n_learned;
    n_forgotten += twin.n_forgotten;
    n_waits += twin.n_waits;
    n_parts += twin.n_parts;
    n_pinned += twin.n_pinned;
    n_pins_refused += twin.n_pins_refused;
  }
};

Sums run_all(const What& what, uint64_t n_seeds) {
  Sums sums;
  for (uint64_t seed = 1; seed <= n_seeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Twin twin(random_knobs(seed, what));
    twin.run(what.tier ? kOpsWithTier : kOps);
    sums.add(twin);
  }
  return sums;
}

void expect_all(const What& what, uint64_t n_wanted) {
  const uint64_t n_seeds = n_seeds_for(n_wanted);
  const Sums sums = run_all(what, n_seeds);
  if (testing::Test::HasFailure()) return;
  const auto wanted = static_cast<int>(n_seeds);
  EXPECT_GT(sums.n_hits, what.hash_bits == 1 ? 0 : wanted / 4);
  EXPECT_GT(sums.n_refused, wanted / 4);
  EXPECT_GT(sums.n_copied, wanted / (what.pins ? 32 : 16));
  EXPECT_GT(sums.n_parts, what.hash_bits == 1 ? 0 : wanted / 64);
  if (what.pins && what.hash_bits != 1) {
    EXPECT_GT(sums.n_pinned, wanted / 4);
    EXPECT_GT(sums.n_pins_refused, wanted / 4);
  }
  const bool exact = what.hash_bits == 0 && !(what.windows && what.tier) && what.policy == "lru";
  if (exact) {
    EXPECT_GT(sums.n_evicted, what.windows ? wanted / 8 : wanted / 2);
  }
  if (exact && what.windows) {
    EXPECT_GT(sums.n_window_evicted, wanted / 2);
    EXPECT_GT(sums.n_hits_behind_a_gap, wanted / (what.keeps ? 32 : 16));
  }
  if (!what.tier || what.hash_bits == 1) return;
  const int often = exact ? wanted / 8 : wanted / 64;
  EXPECT_GT(sums.n_arrived, often);
  EXPECT_GT(sums.n_given_up, often);
  EXPECT_GT(sums.n_learned, often);
  const bool is_many = wanted >= 500;  // where memory is checked they are too few for what is rare
  if (is_many) {
    EXPECT_GT(sums.n_lost, often / 8);
  }
  if (!exact) return;
  EXPECT_GT(sums.n_kept, wanted / 2);
  if (!is_many) return;
  EXPECT_GT(sums.n_overtaken, wanted / 64);
  EXPECT_GT(sums.n_forgotten, wanted / 64);
  EXPECT_GT(sums.n_waits, wanted / 64);
}

TEST(KvCacheModel, RandomOperationsAgreeWithANaiveMap) { expect_all({}, 3000); }

TEST(KvCacheModel, WindowsLoseBlocksInOrderAndHitWhereTheyAreWhole) { expect_all({.windows = true}, 3000); }

TEST(KvCacheModel, WhatLeavesForATierIsKnownAndComesBack) { expect_all({.tier = true}, 3000); }

// The first blocks of a window's group stay with their sequence, and a hit needs them too.
TEST(KvCacheModel, WhatIsKeptIsHeldBesideTheWindow) { expect_all({.windows = true, .keeps = true}, 3000); }
TEST(KvCacheModel, WhatIsKeptLeavesAndComesBack) { expect_all({.windows = true, .tier = true, .keeps = true}, 3000); }

TEST(KvCacheModel, WindowsLeaveAndComeBackWhole) { expect_all({.windows = true, .tier = true}, 3000); }

// Content, books and the tree's own check under every other order of eviction.
TEST(KvCacheModel, NoPolicyChangesWhatABlockHolds) {
  for (const std::string& policy : Registry<KvPolicyEntry>::get().names()) {
    if (policy == "lru") continue;  // above
    SCOPED_TRACE(policy);
    for (const bool windows : {false, true}) {
      for (const bool tier : {false, true}) expect_all({.windows = windows, .tier = tier, .policy = policy}, 500);
    }
  }
}

TEST(KvCacheModel, WhatLeavesForSegmentsComesBackAsItWas) {
  expect_all({.tier = true, .segments = true}, 1000);
  expect_all({.windows = true, .tier = true, .segments = true}, 1000);
}

// Found whole after every operation, under any pressure, and nothing else is changed by it.
TEST(KvCacheModel, WhatIsPinnedStaysWhateverElseNeedsRoom) {
  for (const bool windows : {false, true}) {
    for (const bool tier : {false, true}) {
      expect_all({.windows = windows, .tier = tier, .pins = true}, 2000);
      expect_all({.hash_bits = 4, .windows = windows, .tier = tier, .pins = true}, 500);
      expect_all({.hash_bits = 1, .windows = windows, .tier = tier, .pins = true}, 500);
    }
  }
  for (const std::string& policy : Registry<KvPolicyEntry>::get().names())
    expect_all({.windows = true, .pins = true, .policy = policy}, 500);
}

TEST(KvCacheModel, CollisionsAreMissesAndNeverWrongBlocks) {
  for (const bool windows : {false, true}) {
    for (const bool tier : {false, true}) {
      expect_all({1, windows, tier}, 1000);
      expect_all({4, windows, tier}, 1000);
    }
  }
}

}  // namespace
}  // namespace quire
