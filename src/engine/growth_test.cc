// Who comes in beside others: expected lengths, the simulated peak, the credit for what is lost, and what a scheduler
// makes of them.
#include "engine/growth.h"

#include <gtest/gtest.h>

#include "engine/scheduler_world.h"

namespace quire {
namespace {

TEST(AnswerLengths, WhatLongerOnesHadBeyond) {
  AnswerLengths lengths;
  EXPECT_EQ(lengths.left(0), 0) << "nothing is known";
  for (int i = 0; i < 30; ++i) lengths.add(100);
  lengths.add(400);
  EXPECT_NEAR(static_cast<double>(lengths.left(0)), 110, 1);
  EXPECT_EQ(lengths.left(200), 200);
  EXPECT_EQ(lengths.left(1000), 1000) << "none was longer: as much again";
  for (int i = 0; i < 2000; ++i) lengths.add(10);
  EXPECT_NEAR(static_cast<double>(lengths.left(0)), 10, 1) << "what was long ago is forgotten";
}

int64_t peak(std::vector<Growing> all) { return peak_of(all); }

TEST(Growth, ThePeakIsWhereMostIsHeldAtATime) {
  EXPECT_EQ(peak({{5, 10, 0}}), 15);
  // Both grow by 10, then one ends and gives back 40, the other grows on by 20.
  EXPECT_EQ(peak({{0, 10, 40}, {0, 30, 40}}), 20);
  EXPECT_EQ(peak({{0, 30, 40}, {0, 10, 5}}), 25) << "what comes free is not enough";
  EXPECT_EQ(peak({{0, 10, 1}, {0, 10, 1}, {0, 10, 1}}), 30);
  EXPECT_EQ(peak({{-20, 5, 0}, {-20, 1, 0}}), 0) << "blocks that they have are enough";
}

TEST(Growth, LossesAreFromAShareOfWhatIsComputed) {
  Growth growth(0.05, 1000);
  Sequence seq;
  seq.n_prompt = 100;
  seq.account.n_ever_computed = 600;
  EXPECT_EQ(growth.left(seq, 400), 0);
  growth.lose(seq);
  EXPECT_EQ(growth.credit(), 400);
  EXPECT_NEAR(static_cast<double>(growth.left(seq, 400)), 240, 2) << "as much of the most as is spent";
  growth.lose(seq);
  EXPECT_EQ(growth.credit(), -200);
  EXPECT_TRUE(growth.strict());
  EXPECT_EQ(growth.left(seq, 400), 400);
  growth.find_again(seq, 150);
  EXPECT_EQ(growth.credit(), -50);
  growth.find_again(seq, 600);
  EXPECT_EQ(growth.credit(), -50) << "the rest is to be computed";
  growth.computed(1001);
  EXPECT_EQ(growth.credit(), 0);
  EXPECT_FALSE(growth.strict());
  growth.computed(1'000'000);
  EXPECT_EQ(growth.credit(), 1000) << "no more than the cache holds";
  EXPECT_FALSE(Growth(1, 1000).bounded());
}

// Twelve blocks: answers were 60 tokens long, so of three prompts of a block two have room, though three would fit now.
TEST(SchedulerGrowth, WhoWouldNotFitUntilTheEndWaits) {
  World w({.max_seqs = 4, .step_tokens = 512, .max_chunk = 512, .prefix_cache = false}, 12);
  w.add(1, 10, 60);
  while (w.scheduler->n_running() + w.scheduler->n_waiting() > 0) w.step();
  for (SeqId id = 2; id <= 4; ++id) w.add(id, 15, 200);
  w.step();
  EXPECT_EQ(w.running(), "2 3");
  EXPECT_EQ(w.waiting(), "4");
  EXPECT_EQ(w.scheduler->halt().hold, Hold::blocks);
  EXPECT_GT(w.scheduler->halt().wanted, w.scheduler->halt().have);
}

TEST(SchedulerGrowth, WithoutABoundAllThatFitsNowComesIn) {
  EngineOptions options{.max_seqs = 4, .step_tokens = 512, .max_chunk = 512, .prefix_cache = false};
  options.recompute_share = 1;
  World w(options, 12);
  w.add(1, 10, 60);
  while (w.scheduler->n_running() + w.scheduler->n_waiting() > 0) w.step();
  for (SeqId id = 2; id <= 4; ++id) w.add(id, 15, 200);
  w.step();
  EXPECT_EQ(w.running(), "2 3 4");
}

// Answers of 100 tokens after many short ones: blocks run out until the credit is used up; from then on who comes in
// finds room for the most that it may ask for, and nothing is lost any more.
TEST(SchedulerGrowth, WithoutCreditNothingIsLostAnyMore) {
  EngineOptions options{.max_seqs = 8, .step_tokens = 512, .max_chunk = 512, .prefix_cache = false};
  options.recompute_share = 0;
  World w(options, 20);
  for (SeqId id = 1; id <= 60; ++id) w.add(id, 15, id <= 20 ? 2 : 100);
  int64_t n_lost_late = 0, n_steps = 0;
  while (w.scheduler->n_running() + w.scheduler->n_waiting() > 0) {
    const int64_t before = w.scheduler->counters().n_out_of_blocks;
    const bool strict = w.scheduler->growth().strict();
    int64_t most = 0;
    for (const auto& seq : w.scheduler->running())
      most += (seq->n_prompt + seq->request.max_tokens - 1 + kBlock - 1) / kBlock;
    w.step();
    if (strict && most <= 20) n_lost_late += w.scheduler->counters().n_out_of_blocks - before;
    ASSERT_LT(++n_steps, 100'000);
  }
  EXPECT_GT(w.scheduler->counters().n_out_of_blocks, 0) << "short answers promised more room than there was";
  EXPECT_EQ(n_lost_late, 0);
  EXPECT_LE(w.scheduler->counters().n_recomputed_for_blocks, 20 * kBlock + 8 * 114);
}

}  // namespace
}  // namespace quire
