// The policy "vtc" in the scheduler: shares in tokens and by weight, and what it leaves to turns.
#include <gtest/gtest.h>

#include <map>

#include "engine/scheduler_world.h"

namespace quire {
namespace {

constexpr uint64_t kOne = 1, kTwo = 2;

// Tokens that each tenant's sequences were granted in so many steps.
std::map<uint64_t, int> granted(World& w, int n_steps) {
  std::map<uint64_t, int> out;
  for (int i = 0; i < n_steps; ++i) {
    const Plan& plan = w.scheduler->plan(0);
    std::vector<Sampled> sampled;
    for (const Grant& grant : plan.grants) {
      out[grant.seq->request.tenant] += grant.n_tokens;
      if (grant.n_out > 0) sampled.push_back({kSampled, 0.0F, true, {}});
      grant.seq->n_checked = grant.n_out;
    }
    std::vector<Ended> ended;
    w.scheduler->advance();
    w.scheduler->commit(sampled, 0, [](Sequence&, Sampled&, bool) {}, ended);
  }
  return out;
}

TEST(Vtc, SharesAreTokensAndNotRequests) {
  for (const char* policy : {"fcfs", "vtc"}) {
    World w({.max_seqs = 2, .step_tokens = 32, .max_chunk = 32, .policy = policy}, 400);
    for (SeqId id = 1; id <= 60; ++id) w.add_of(kOne, 1, id, 160, 1);
    for (SeqId id = 101; id <= 1100; ++id) w.add_of(kTwo, 1, id, 10, 1);
    const auto n = granted(w, 150);
    if (std::string(policy) == "vtc") {
      // An answer's token counts two: a request of one is 162, of the other 12.
      const double one = n.at(kOne) * 162.0 / 160, two = n.at(kTwo) * 12.0 / 10;
      EXPECT_NEAR(one / two, 1, 0.1);
    } else {
      EXPECT_GT(n.at(kOne), 2 * n.at(kTwo)) << "by turns the long prompts have more";
    }
  }
}

TEST(Vtc, SharesFollowWeights) {
  for (const int weight : {2, 5}) {
    World w({.max_seqs = 4, .step_tokens = 32, .max_chunk = 32, .policy = "vtc", .allowance = 100}, 400);
    for (SeqId id = 1; id <= 400; ++id) w.add_of(kOne, 1, id, 40, 4);
    for (SeqId id = 1001; id <= 1400; ++id) w.add_of(kTwo, weight, id, 40, 4);
    const auto n = granted(w, 300);
    EXPECT_NEAR(static_cast<double>(n.at(kTwo)) / n.at(kOne), weight, 0.1 * weight);
  }
}

TEST(Vtc, PlacesFollowWeightsUnderTurnsToo) {
  World w({.max_seqs = 16}, 2000);
  for (SeqId id = 1; id <= 100; ++id) w.add_of(kOne, 1, id, 8, 100);
  for (SeqId id = 1001; id <= 1100; ++id) w.add_of(kTwo, 3, id, 8, 100);
  granted(w, 10);
  const auto running = w.scheduler->running();
  EXPECT_EQ(std::ranges::count(running, kTwo, [](const auto& seq) { return seq->request.tenant; }), 12);
}

TEST(Vtc, ANewcomersPromptIsComputedAsAWholeBeforeLaterOnesOfOthers) {
  World w({.max_seqs = 8, .step_tokens = 64, .max_chunk = 64, .policy = "vtc"}, 400);
  for (SeqId id = 1; id <= 20; ++id) w.add_of(kOne, 1, id, 900, 4);
  for (int i = 0; i < 15; ++i) w.step();  // 1 is through with its prompt, 2 has begun
  w.add_of(kTwo, 1, 100, 150, 4);
  EXPECT_EQ(w.step(), "1:1! 100:63");
  EXPECT_EQ(w.step(), "1:1! 100:63");
  EXPECT_EQ(w.step(), "1:1! 100:24! 2:39") << "and what is left of the step is not lost";
  EXPECT_EQ(w.scheduler->counters().n_preempted, 0);
}

// Also before a prompt of the flood's oldest that has begun, and with a second prompt behind the first.
TEST(Vtc, WhoAsksForLittleIsComputedBeforeAnythingOfAFlood) {
  World w({.max_seqs = 3, .step_tokens = 64, .max_chunk = 64, .policy = "vtc", .allowance = 1000}, 400);
  for (SeqId id = 1; id <= 20; ++id) w.add_of(kOne, 1, id, 900, 4);
  for (int i = 0; i < 3; ++i) w.step();
  w.add_of(kTwo, 1, 100, 100, 1);
  w.add_of(kTwo, 1, 101, 100, 1);
  EXPECT_EQ(w.step(), "100:64");
  EXPECT_EQ(w.step(), "100:36! 101:28");
  EXPECT_EQ(w.step(), "101:64");
  w.add_of(kTwo, 1, 102, 800, 1);  // with what it had that is over its allowance
  EXPECT_EQ(w.step(), "1:64") << "then turns decide";
}

// What is found in the cache is not charged: the tenant whose prompts are known has more of them answered.
TEST(Vtc, WhatIsCachedIsNotCharged) {
  World w({.max_seqs = 2, .step_tokens = 64, .max_chunk = 64, .policy = "vtc"}, 400);
  const auto known = random_tokens(7, 160);
  for (SeqId id = 1; id <= 200; ++id) {
    w.add_of(kOne, 1, id, 160, 1).tokens = known;
    w.add_of(kTwo, 1, 1000 + id, 160, 1);
  }
  std::map<uint64_t, int> n_ended;
  for (int i = 0; i < 60; ++i) granted(w, 1);
  int n_known = 0, n_new = 0;
  for (const auto& seq : w.scheduler->waiting()) (seq->request.tenant == kOne ? n_known : n_new) += 1;
  EXPECT_LT(200 - n_new, 30);
  EXPECT_GT(200 - n_known, 3 * (200 - n_new));
}

}  // namespace
}  // namespace quire
