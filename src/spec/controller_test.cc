// The controller on machines that are written down: what a step takes is a function of its rows, with noise, and
// guesses come true by chance. It is held against every fixed depth, and against none.
#include "spec/controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/rng.h"

namespace quire {
namespace {

constexpr int kMost = 8;

struct Machine {
  std::string name;
  double flat_rows;    // so many rows take no longer than one
  double guess_share;  // of a plain step of one stream: a round of guessing
  double step_ns = 10e6;

  double ns(int n_rows, int n_rounds) const {
    return step_ns * (std::max(1.0, n_rows / flat_rows) + guess_share * n_rounds);
  }
};

struct World {
  Machine machine;
  int n_streams;
  std::function<double(int step)> chance;  // that a guess comes true
  int n_steps = 3000;
};

// Tokens per second; `fixed` below 0: the controller's. The second number: of the last third.
std::pair<double, double> run(const World& world, int fixed, DepthController* controller = nullptr) {
  Rng rng(7);
  DepthController own(kMost);
  DepthController& c = controller != nullptr ? *controller : own;
  std::vector<DepthController::Stream> streams(static_cast<size_t>(world.n_streams));
  double ns = 0, late_ns = 0;
  int64_t n_tokens = 0, n_late = 0;
  for (int step = 0; step < world.n_steps; ++step) {
    for (size_t s = 0; s < streams.size(); ++s) streams[s] = {s + 1, kMost, std::max(fixed, 0), 100, 1000};
    if (fixed < 0) c.choose(streams, world.n_streams, world.n_streams * 100);
    int n_drafted = 0, n_rounds = 0;
    int64_t n_new = 0;
    for (const auto& stream : streams) {
      int n_accepted = 0;
      while (n_accepted < stream.depth && rng.unit() < world.chance(step)) ++n_accepted;
      n_drafted += stream.depth;
      n_rounds = std::max(n_rounds, stream.depth);
      n_new += 1 + n_accepted;
      if (fixed < 0 && stream.depth > 0) c.verified({stream.seq, stream.depth, n_accepted, n_accepted});
    }
    const double took = world.machine.ns(world.n_streams + n_drafted, n_rounds) * (0.9 + 0.2 * rng.unit());
    if (fixed < 0) c.observe({n_drafted, static_cast<int>(n_new), static_cast<int64_t>(took)});
    ns += took;
    n_tokens += n_new;
    if (step >= world.n_steps * 2 / 3) late_ns += took, n_late += n_new;
  }
  return {static_cast<double>(n_tokens) / ns * 1e9, static_cast<double>(n_late) / late_ns * 1e9};
}

const Machine kMachines[] = {
    {.name = "a GPU: 64 rows cost what one does", .flat_rows = 64, .guess_share = 0.05},
    {.name = "a CPU that reads weights", .flat_rows = 6, .guess_share = 0.12},
    {.name = "a CPU that computes", .flat_rows = 1, .guess_share = 0.1},
    {.name = "lookup that costs nothing", .flat_rows = 4, .guess_share = 0},
};

TEST(DepthController, IsNearTheBestDepthAndNeverFarBelowNone) {
  for (const Machine& machine : kMachines) {
    for (const int n_streams : {1, 8, 64}) {
      for (const double p : {0.0, 0.5, 0.8, 0.95}) {
        const World world{machine, n_streams, [p](int) { return p; }};
        const double off = run(world, 0).second;
        double best = off;
        for (int k = 1; k <= kMost; ++k) best = std::max(best, run(world, k).second);
        const auto [all, late] = run(world, -1);
        const std::string where = machine.name + ", " + std::to_string(n_streams) + " streams, " + std::to_string(p);
        EXPECT_GE(late, 0.9 * best) << where << ", off is " << off / best;
        EXPECT_GE(late, 0.97 * off) << where;
        EXPECT_GE(all, 0.95 * off) << where << ", from the first step on";
      }
    }
  }
}

TEST(DepthController, NoticesWhenGuessesTurn) {
  for (const bool worse : {true, false}) {
    const World world{kMachines[1], 1, [worse](int step) { return (step < 6000) == worse ? 0.9 : 0.05; }, 24'000};
    const World after{kMachines[1], 1, [worse](int) { return worse ? 0.05 : 0.9; }};
    double best = 0;
    for (int k = 0; k <= kMost; ++k) best = std::max(best, run(after, k).second);
    EXPECT_GE(run(world, -1).second, 0.95 * best) << worse;
  }
}

TEST(DepthController, WhereNothingComesTrueItAsksForAHundredthAtMost) {
  DepthController controller(kMost);
  const World world{kMachines[2], 4, [](int) { return 0.0; }, 20'000};
  run(world, -1, &controller);
  EXPECT_LE(controller.n_explored(), 200);
  EXPECT_GT(controller.n_explored(), 20) << "else it would never notice";
  EXPECT_EQ(controller.depth(), 0);
}

TEST(DepthController, StreamsThatGuessBadlyAreAskedForLess) {
  DepthController controller(kMost);
  Rng rng(3);
  std::vector<DepthController::Stream> streams(8);
  std::array<int64_t, 2> asked{};
  for (int step = 0; step < 3000; ++step) {
    for (size_t s = 0; s < streams.size(); ++s) streams[s] = {s + 1, kMost, 0, 100, 1000};
    controller.choose(streams, 8, 800);
    int n_drafted = 0, n_rounds = 0, n_new = 0;
    for (const auto& stream : streams) {
      int n_accepted = 0;
      while (n_accepted < stream.depth && rng.unit() < (stream.seq % 2 == 0 ? 0.9 : 0.1)) ++n_accepted;
      if (stream.depth > 0) controller.verified({stream.seq, stream.depth, n_accepted, n_accepted});
      n_drafted += stream.depth;
      n_new += 1 + n_accepted;
      n_rounds = std::max(n_rounds, stream.depth);
      if (step > 500) asked[stream.seq % 2] += stream.depth;
    }
    // Every row costs something, and a step does too.
    controller.observe({n_drafted, n_new, static_cast<int64_t>(1e7 * (1 + 0.05 * (8 + n_drafted) + 0.05 * n_rounds))});
  }
  EXPECT_GT(asked[0], 5 * asked[1]);
}

// One stream; its first guess comes true in 0.3 of the steps, those beside it, by rank, in 0.15, 0.08 and 0.005. Where
// a row costs 0.05 of a step the first two pay, at 0.1 one does, at 0.2 none; where rows are free, all do.
TEST(DepthController, TokensBesideTheFirstAreAskedForWhereTheyPay) {
  const auto usual_side = [](double row_cost) {
    DepthController controller(2, 3);
    Rng rng(5);
    std::array<int, 4> n_steps{};
    for (int step = 0; step < 4000; ++step) {
      std::array<DepthController::Stream, 1> one{{{.seq = 1, .most = 2, .n_tokens = 100, .n_left = 1000}}};
      controller.choose(one, 1, 100);
      const DepthController::Stream& stream = one[0];
      Verified what{.seq = 1, .n_drafted = stream.depth};
      if (stream.depth > 0) {
        const double at = rng.unit();
        what.n_first = what.n_side = stream.side;
        what.came = at < 0.3 ? -1 : at < 0.45 ? 0 : at < 0.53 ? 1 : at < 0.535 ? 2 : -1;
        if (what.came >= stream.side) what.came = -1;
        what.n_right = at < 0.3 ? 1 : 0;
        what.n_accepted = what.n_right + (what.came >= 0 ? 1 : 0);
        controller.verified(what);
      }
      const int n_drafted = stream.depth + what.n_side;
      const double noise = 0.95 + 0.1 * rng.unit();
      controller.observe({n_drafted, 1 + what.n_accepted,
                          static_cast<int64_t>(1e7 * noise * (1 + row_cost * n_drafted + 0.05 * stream.depth))});
      if (step > 2000 && !controller.trying()) ++n_steps[static_cast<size_t>(stream.depth > 0 ? stream.side : 0)];
    }
    return std::max_element(n_steps.begin(), n_steps.end()) - n_steps.begin();
  };
  EXPECT_EQ(usual_side(0.05), 2);
  EXPECT_EQ(usual_side(0.1), 1);
  EXPECT_EQ(usual_side(0.0), 3);
  EXPECT_EQ(usual_side(0.2), 0);
}

TEST(DepthController, TheSameStepsTeachTheSame) {
  const World world{kMachines[1], 4, [](int) { return 0.7; }, 500};
  EXPECT_EQ(run(world, -1), run(world, -1));
}

TEST(DepthController, AsksNobodyBeyondWhatMayBe) {
  DepthController controller(kMost);
  std::vector<DepthController::Stream> streams{{1, 1, 0, 10, 100}, {2, 3, 0, 10, 100}};
  for (int step = 0; step < 200; ++step) {
    controller.choose(streams, 5, 100);
    for (const auto& stream : streams) {
      ASSERT_LE(stream.depth, stream.most);
      if (stream.depth > 0) controller.verified({stream.seq, stream.depth, stream.depth, stream.depth});
    }
    const int n = streams[0].depth + streams[1].depth;
    controller.observe({n, 5 + n, 1'000'000});
  }
  std::vector<DepthController::Stream> nobody;
  controller.choose(nobody, 3, 100);
  EXPECT_EQ(controller.depth(), 0);
}

}  // namespace
}  // namespace quire
