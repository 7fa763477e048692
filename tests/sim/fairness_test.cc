// Shares under "vtc": the bound holds for thousands of loads, tables say what they should, and a flood costs another
// tenant little.
#include "tests/sim/fairness.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/sanitized.h"
#include "engine/replay.h"
#include "tests/sim/workers.h"
#include "tests/sim/world.h"

namespace quire::sim {
namespace {

constexpr uint64_t kSeeds = kSanitized ? 100 : 1000;
constexpr uint64_t kFloods = kSanitized ? 10 : 40;

double at(const FloodTimes& times, double q) { return static_cast<double>(at_rank(times.ttft_ns, q)); }

TEST(Fairness, WhatTwoThatWaitAreServedDiffersByTheBoundAtMost) {
  const int n_workers = static_cast<int>(std::thread::hardware_concurrency());
  const Report report = run_seeds(1, kSeeds, n_workers, fairness_script);
  ASSERT_FALSE(report.failed) << "seed " << report.seed << ": " << report.failure
                              << "\nagain, and smaller: ./dev sim --fair --seed " << report.seed;
  EXPECT_GT(report.counts.cached, static_cast<int64_t>(kSeeds));
  EXPECT_GT(report.counts.preempted, static_cast<int64_t>(kSeeds));
}

// The step that is under way and the rows of the flood's streams are left of it (docs/engine.md, "Allowances").
TEST(Fairness, AFloodMovesThePercentilesOfWhoIsWithinItsAllowanceByATenth) {
  const FloodTimes alone = flood_times(1, kFloods, Met::alone), beside = flood_times(1, kFloods, Met::allowance),
                   turns = flood_times(1, kFloods, Met::turns);
  ASSERT_EQ(alone.failure + beside.failure + turns.failure, "");
  EXPECT_LE(at(beside, 0.5), 1.1 * at(alone, 0.5));
  EXPECT_LE(at(beside, 0.99), 1.1 * at(alone, 0.99));
  EXPECT_LE(static_cast<double>(beside.n_steps), static_cast<double>(turns.n_steps) / 0.97) << "it costs no throughput";
}

// Alone the quiet tenant waits for itself as well; without an allowance, beside a flood it has a share of the machine
// in place of all of it.
TEST(Fairness, AFloodCostsAnotherNoMoreThanItsShare) {
  const FloodTimes alone = flood_times(1, kFloods, Met::alone), fifo = flood_times(1, kFloods, Met::fifo),
                   vtc = flood_times(1, kFloods, Met::vtc);
  ASSERT_EQ(alone.failure + fifo.failure + vtc.failure, "");
  EXPECT_LE(at(vtc, 0.5), 1.5 * at(alone, 0.5));
  EXPECT_LE(at(vtc, 0.99), 3 * at(alone, 0.99));
  EXPECT_GT(at(fifo, 0.5), 5 * at(vtc, 0.5)) << "the flood is one";
}

}  // namespace
}  // namespace quire::sim
