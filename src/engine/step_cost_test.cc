#include "engine/step_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace quire {
namespace {

// A machine that does what the model assumes, but for noise.
struct Machine {
  double base = 2e6, decode = 2e5, prefill = 4e4, key = 2;
  double ns(const StepShape& s) const {
    return base + decode * s.n_decode + prefill * s.n_prefill + key * static_cast<double>(s.n_keys);
  }
};

StepShape random_shape(Rng& rng) {
  StepShape out;
  for (int64_t n = rng.between(0, 20); n > 0; --n) out += StepShape::rows(static_cast<int>(rng.between(0, 4000)), 1);
  if (rng.between(0, 1) == 0) {
    out += StepShape::rows(static_cast<int>(rng.between(0, 4000)), static_cast<int>(rng.between(2, 512)));
  }
  return out;
}

TEST(StepShape, CountsRowsAndKeys) {
  const StepShape chunk = StepShape::rows(10, 3);  // attends 11 + 12 + 13 keys
  EXPECT_EQ(chunk.n_prefill, 3);
  EXPECT_EQ(chunk.n_keys, 36);
  StepShape both = chunk + StepShape::rows(7, 1);
  EXPECT_EQ(both.n_decode, 1);
  EXPECT_EQ(both.n_keys, 44);
  both -= chunk;
  EXPECT_EQ(both.n_prefill, 0);
  EXPECT_EQ(both.n_keys, 8);
}

TEST(StepCost, LearnsALineExactlyEnough) {
  const Machine machine;
  Rng rng(1);
  StepCost cost;
  for (int i = 0; i < 200; ++i) {
    const StepShape shape = random_shape(rng);
    cost.observe(shape, static_cast<int64_t>(machine.ns(shape)));
  }
  for (int i = 0; i < 200; ++i) {
    const StepShape shape = random_shape(rng);
    EXPECT_NEAR(cost.predict_ns(shape) / machine.ns(shape), 1, 0.02);
  }
}

TEST(StepCost, SlowStepsAndNoiseMoveItLittle) {
  const Machine machine;
  Rng rng(2);
  StepCost cost;
  for (int i = 0; i < 2000; ++i) {
    const StepShape shape = random_shape(rng);
    double ns = machine.ns(shape) * (0.95 + 0.1 * rng.unit());
    if (i > 50 && rng.between(0, 99) == 0) ns *= 100;
    cost.observe(shape, static_cast<int64_t>(ns));
    if (i < 300) continue;
    ASSERT_NEAR(cost.predict_ns(shape) / machine.ns(shape), 1, 0.25) << "step " << i;
  }
}

TEST(StepCost, FollowsAMachineThatBecomesSlower) {
  Machine machine;
  Rng rng(3);
  StepCost cost;
  const auto steps = [&](int n) {
    for (int i = 0; i < n; ++i) {
      const StepShape shape = random_shape(rng);
      cost.observe(shape, static_cast<int64_t>(machine.ns(shape) * (0.98 + 0.04 * rng.unit())));
    }
  };
  steps(500);
  for (double* c : {&machine.base, &machine.decode, &machine.prefill, &machine.key}) *c *= 2;
  steps(500);
  const StepShape shape = StepShape::rows(1000, 300) + StepShape::rows(500, 1);
  EXPECT_NEAR(cost.predict_ns(shape) / machine.ns(shape), 1, 0.1);
}

// Ten thousand steps without a prompt must not make it forget, or doubt without bound, what prompts cost.
TEST(StepCost, KeepsWhatPromptsCostWhileThereAreNone) {
  const Machine machine;
  Rng rng(4);
  StepCost cost;
  for (int i = 0; i < 200; ++i) {
    const StepShape shape = random_shape(rng);
    cost.observe(shape, static_cast<int64_t>(machine.ns(shape)));
  }
  for (int i = 0; i < 10000; ++i) {
    const StepShape shape = StepShape::rows(i, 1);
    cost.observe(shape, static_cast<int64_t>(machine.ns(shape) * (0.98 + 0.04 * rng.unit())));
  }
  const StepShape shape = StepShape::rows(1000, 300);
  EXPECT_NEAR(cost.predict_ns(shape) / machine.ns(shape), 1, 0.3);
}

TEST(StepCost, FitsTheMostThatKeepsTheLimit) {
  const Machine machine;
  Rng rng(5);
  StepCost cost;
  for (int i = 0; i < 500; ++i) {
    const StepShape shape = random_shape(rng);
    cost.observe(shape, static_cast<int64_t>(machine.ns(shape)));
  }
  const StepShape streams = StepShape::rows(100, 1);
  const double limit = 12e6;
  const int n = cost.fit(streams, 0, 512, limit);
  EXPECT_GT(n, 150);
  EXPECT_LE(cost.predict_ns(streams + StepShape::rows(0, n)) + cost.spread_ns(), limit);
  EXPECT_GT(cost.predict_ns(streams + StepShape::rows(0, n + 1)) + cost.spread_ns(), limit);
  EXPECT_LT(cost.fit(streams, 1'000'000, 512, limit), n) << "keys cost too";
  EXPECT_EQ(cost.fit(streams, 0, 512, 1e5), 0);
  EXPECT_EQ(cost.fit(streams, 0, 7, 1e12), 7);
}

TEST(StepCost, TrustsNoLineBeyondTwiceWhatItSaw) {
  StepCost cost;
  EXPECT_EQ(cost.fit({}, 0, 512, 1e12), 32);
  cost.observe(StepShape::rows(0, 50), 1000);
  EXPECT_EQ(cost.fit({}, 0, 512, 1e12), 100);
  EXPECT_EQ(cost.fit(StepShape::rows(0, 90), 0, 512, 1e12), 10);
}

TEST(StepCost, AClockThatGoesBackTeachesNothing) {
  StepCost cost;
  cost.observe(StepShape::rows(0, 50), -5);
  cost.observe(StepShape::rows(0, 50), 0);
  EXPECT_EQ(cost.n_observed(), 0);
  EXPECT_EQ(cost.predict_ns(StepShape::rows(0, 50)), 0);
}

}  // namespace
}  // namespace quire
