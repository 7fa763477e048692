// The policy "deadlines" in the scheduler: who is due first is computed first, and what cannot be on time is refused
// before anything is computed for it.
#include <gtest/gtest.h>

#include "engine/scheduler_world.h"

namespace quire {
namespace {

constexpr int64_t kMs = 1'000'000;

// Steps of 32 tokens that take a millisecond a token, as the scheduler has learned.
World taught(int max_seqs = 1) {
  World w({.max_seqs = max_seqs, .step_tokens = 32, .max_chunk = 32, .policy = "deadlines"}, 400);
  w.step_ns = 32 * kMs;
  w.add(1, 320, 1);
  for (int i = 0; i < 10; ++i) w.step();
  EXPECT_TRUE(w.scheduler->idle());
  return w;
}

Sequence& add_due(World& w, SeqId id, int n_prompt, int64_t deadline_ms, uint64_t tenant = 0) {
  Sequence& seq = w.add_of(tenant, 1, id, n_prompt, 1);
  seq.request.deadline_ns = deadline_ms * kMs;
  return seq;
}

std::string late(World& w, int64_t now_ms) {
  std::string out;
  for (auto seq = w.scheduler->take_late(now_ms * kMs); seq != nullptr; seq = w.scheduler->take_late(now_ms * kMs))
    out += (out.empty() ? "" : " ") + std::to_string(seq->id);
  return out;
}

TEST(Deadlines, WhoIsDueFirstGoesFirst) {
  World w = taught();
  add_due(w, 11, 32, 900);
  add_due(w, 12, 32, 500);
  w.add(13, 32, 1);  // names none
  add_due(w, 14, 32, 700);
  EXPECT_EQ(w.step(), "12:32!");
  EXPECT_EQ(w.step(), "14:32!");
  EXPECT_EQ(w.step(), "11:32!");
  EXPECT_EQ(w.step(), "13:32!");
}

TEST(Deadlines, WhatCannotBeOnTimeIsRefusedAndNothingElse) {
  World w = taught();
  add_due(w, 11, 320, 200);  // takes 320 ms by itself
  add_due(w, 12, 160, 250);  // takes 160
  add_due(w, 13, 160, 300);  // and this one 320 behind it
  add_due(w, 14, 160, 400);
  w.add(15, 900, 1);
  EXPECT_EQ(late(w, 0), "11 13");
  EXPECT_EQ(w.waiting(), "12 14 15");
  EXPECT_EQ(late(w, 70), "") << "320 ms for both: just in time";
  EXPECT_EQ(late(w, 100), "12") << "and without it the next is";
}

// Between tenants turns change with every step, so what another asks for is no reason.
TEST(Deadlines, AnothersFloodIsNoReasonToRefuse) {
  World w = taught();
  for (SeqId id = 11; id < 31; ++id) add_due(w, id, 320, 100'000, 7);
  add_due(w, 31, 320, 400, 8);
  add_due(w, 32, 320, 400, 8);
  EXPECT_EQ(late(w, 0), "32") << "320 ms for the first of its two";
}

TEST(Deadlines, WhatHasBegunGoesOn) {
  World w = taught();
  add_due(w, 11, 320, 400);
  EXPECT_EQ(late(w, 0), "");
  EXPECT_EQ(w.step(), "11:32");
  EXPECT_EQ(late(w, 5000), "");
}

TEST(Deadlines, NothingIsKnownBeforeTheFirstStepAndNothingUnderOtherPolicies) {
  World fresh({.max_seqs = 1, .step_tokens = 32, .max_chunk = 32, .policy = "deadlines"}, 400);
  add_due(fresh, 1, 900, 1);
  EXPECT_EQ(late(fresh, 0), "");
  World other({.max_seqs = 1, .step_tokens = 32, .max_chunk = 32}, 400);
  other.step_ns = 32 * kMs;
  other.add(1, 320, 1);
  for (int i = 0; i < 10; ++i) other.step();
  add_due(other, 2, 900, 1);
  EXPECT_EQ(late(other, 0), "");
}

}  // namespace
}  // namespace quire
