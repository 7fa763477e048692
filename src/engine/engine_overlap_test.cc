// Steps that are asked for while the ones before them run: whose can be, what is dropped, who comes in when, and that
// answers are what they are without.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/test_model.h"
#include "engine/test_schedules.h"
#include "ops/ahead_ops.h"

namespace quire {
namespace {

constexpr int kCtx = 160;

EngineOptions overlapping() {
  EngineOptions out = kTestSchedules[0].options(kCtx);
  out.overlap = true;
  return out;
}

Request greedy(uint64_t seed, int n_prompt, int max_tokens) {
  Request out;
  out.prompt = random_tokens(seed, n_prompt);
  out.max_tokens = max_tokens;
  out.sampling.temperature = 0;
  out.sampling.n_logprobs = 0;
  return out;
}

EngineStats stats_of(const TestEngine& engine) { return engine.engine->stats(); }

TEST(EngineOverlap, AStreamIsAskedForAheadUntilItsLastToken) {
  TestEngine engine(overlapping());
  const auto heard = engine.submit(greedy(1, 20, 10));
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(heard->answer, alone(greedy(1, 20, 10), kCtx));
  EXPECT_EQ(stats_of(engine).n_steps, 10);
  EXPECT_EQ(stats_of(engine).n_steps_ahead, 9);
  EXPECT_EQ(stats_of(engine).n_dropped_rows, 0);
}

TEST(EngineOverlap, IdsOfAStepAheadAreNotTheHosts) {
  TestEngine engine(overlapping());
  const auto heard = engine.submit(greedy(1, 20, 6));
  std::vector<size_t> n_heard;
  engine.model.on_pass = [&](const Batch&) { n_heard.push_back(heard->answer.tokens.size()); };
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(n_heard, (std::vector<size_t>{0, 0, 1, 2, 3, 4}));  // each is asked for a token early
}

TEST(EngineOverlap, TheRowBehindAnEndIsDroppedAndChargedToNobody) {
  const ExpectedAnswer whole = alone(greedy(3, 20, 30), kCtx);
  const auto request = [&] {
    Request out = greedy(3, 20, 30);
    out.stop_ids = {whole.tokens[7]};
    return out;
  };
  TestEngine engine(overlapping());
  int64_t n_rows = 0;
  engine.model.on_pass = [&](const Batch& batch) { n_rows += batch.ids.dim(0); };
  const auto heard = engine.submit(request()), beside = engine.submit(greedy(4, 9, 40));
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(heard->answer, alone(request(), kCtx));
  EXPECT_EQ(heard->answer.finish, Finish::stop);
  EXPECT_EQ(beside->answer, alone(greedy(4, 9, 40), kCtx));
  const EngineStats stats = stats_of(engine);
  EXPECT_EQ(stats.n_dropped_rows, 1);
  EXPECT_EQ(stats.spent.n_computed() + 1, n_rows);
  EXPECT_EQ(heard->usage.cost.n_computed() + beside->usage.cost.n_computed(), stats.spent.n_computed());
}

TEST(EngineOverlap, AStepThatNobodyIsLeftInWasForNothing) {
  const ExpectedAnswer whole = alone(greedy(3, 20, 30), kCtx);
  TestEngine engine(overlapping());
  Request wanted = greedy(3, 20, 30);
  wanted.stop_ids = {whole.tokens[7]};
  const auto first = engine.submit(std::move(wanted));
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(stats_of(engine).n_dropped_rows, 1);
  const auto second = engine.submit(greedy(5, 30, 12));
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(first->answer.finish, Finish::stop);
  EXPECT_EQ(second->answer, alone(greedy(5, 30, 12), kCtx));
}

TEST(EngineOverlap, WhatTheHostAloneKnowsMakesAStepWait) {
  const auto n_ahead = [](const std::function<void(Request&)>& change, EngineOptions options) {
    TestEngine engine(options);
    Request wanted = greedy(6, 20, 12), same = greedy(6, 20, 12);
    change(wanted);
    change(same);
    const auto heard = engine.submit(std::move(wanted));
    EXPECT_EQ(engine.run(), "");
    const std::vector<Token> truth = alone(same, kCtx).tokens;  // behind the prompt's, where these were told
    EXPECT_TRUE(std::ranges::equal(std::span(heard->answer.tokens).last(truth.size()), truth));
    return stats_of(engine).n_steps_ahead;
  };
  EngineOptions off = overlapping(), by_itself = overlapping(), turns = overlapping();
  off.overlap = false;
  by_itself.overlap = std::nullopt;
  turns.step_target_ms = 1;
  EXPECT_GT(n_ahead([](Request&) {}, overlapping()), 0);
  EXPECT_EQ(n_ahead([](Request&) {}, off), 0);
  EXPECT_EQ(n_ahead([](Request&) {}, by_itself), 0);  // no device computes
  EXPECT_EQ(n_ahead([](Request&) {}, turns), 0);
  EXPECT_GT(n_ahead([](Request& r) { r.sampling.temperature = 1; }, overlapping()), 0);
  EXPECT_GT(n_ahead([](Request& r) { r.sampling.top_p = 0.9F; }, overlapping()), 0);  // which does nothing at 0
  EXPECT_EQ(n_ahead([](Request& r) { r.sampling.temperature = 1, r.sampling.top_p = 0.9F; }, overlapping()), 0);
  EXPECT_EQ(n_ahead([](Request& r) { r.sampling.temperature = 1, r.sampling.order = {}; }, overlapping()), 0);
  EXPECT_EQ(n_ahead([](Request& r) { r.sampling.repetition_penalty = 1.5F; }, overlapping()), 0);
  EXPECT_EQ(n_ahead([](Request& r) { r.sampling.logit_bias = {{3, 2.0F, 1.0F}}; }, overlapping()), 0);
  EXPECT_EQ(n_ahead([](Request& r) { r.sampling.n_prompt_logprobs = 0; }, overlapping()), 0);
}

// One whom a filter cuts makes all wait, so that no stream has fewer steps than another.
TEST(EngineOverlap, AllWhoRunAreInEveryStep) {
  TestEngine engine(overlapping());
  Request drawn = greedy(8, 20, 10);
  drawn.sampling.temperature = 1;
  drawn.sampling.top_k = 5;
  const auto first = engine.submit(greedy(7, 20, 25)), second = engine.submit(std::move(drawn));
  for (int step = 1; !second->done(); ++step) {
    ASSERT_EQ(engine.step(), "");
    EXPECT_EQ(first->answer.tokens.size(), second->answer.tokens.size());
    EXPECT_EQ(stats_of(engine).n_steps_ahead, 0);
  }
  ASSERT_EQ(engine.run(), "");
  EXPECT_GT(stats_of(engine).n_steps_ahead, 10);
  EXPECT_EQ(first->answer, alone(greedy(7, 20, 25), kCtx));
}

TEST(EngineOverlap, WhoComesIsInTheStepBehindTheOneThatWasAskedFor) {
  TestEngine engine(overlapping());
  const auto first = engine.submit(greedy(1, 20, 40));
  for (int i = 0; i < 5; ++i) ASSERT_EQ(engine.step(), "");
  const auto second = engine.submit(greedy(2, 10, 3));
  ASSERT_EQ(engine.step(), "");
  EXPECT_EQ(second->answer.tokens.size(), 0U);
  ASSERT_EQ(engine.step(), "");
  EXPECT_EQ(second->answer.tokens.size(), 1U);
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(first->answer, alone(greedy(1, 20, 40), kCtx));
  EXPECT_EQ(second->answer, alone(greedy(2, 10, 3), kCtx));
}

TEST(EngineOverlap, WhoIsCancelledOrStoppedLeavesTheStepThatWasAskedFor) {
  TestEngine engine(overlapping());
  const auto first = engine.submit(greedy(1, 20, 40)), second = engine.submit(greedy(2, 20, 40));
  for (int i = 0; i < 5; ++i) ASSERT_EQ(engine.step(), "");
  engine.engine->cancel(first->seq);
  ASSERT_EQ(engine.step(), "");
  EXPECT_EQ(first->answer.finish, Finish::cancelled);
  EXPECT_EQ(stats_of(engine).n_dropped_rows, 1);
  EXPECT_EQ(second->answer.tokens.size(), 6U);
  engine.engine->stop();
  EXPECT_EQ(second->answer.finish, Finish::cancelled);
  EXPECT_EQ(stats_of(engine).n_dropped_rows, 2);
  EXPECT_EQ(engine.engine->snapshot().check(), "");
}

// A backend that has ops for it and no memory.
class NoMemory final : public HostAhead {
 public:
  using HostAhead::HostAhead;
  Result<Buffer> allocate_sent(int64_t) override { return fail(Code::exhausted, "none is left"); }
};
class WithoutMemory final : public WrappedOps {
 public:
  WithoutMemory() : WrappedOps(std::make_unique<TestOps>()) {}
  AheadOps* ahead() override { return &ahead_; }

 private:
  NoMemory ahead_{*this};
};

TEST(EngineOverlap, WithoutMemoryForItStepsWait) {
  EngineOptions options = overlapping();
  options.max_seqs = 1;
  TestModel model(kCtx);
  ManualClock clock;
  EngineEnv env;
  env.clock = &clock;
  options.kv_bytes = 1 << 12;
  options.overlap = true;
  WithoutMemory without;
  const auto engine = make_engine(model, without, options, env);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto heard = std::make_shared<Heard>();
  ASSERT_TRUE((*engine)->submit(greedy(1, 20, 8), heard));
  while ((*engine)->step()) {
  }
  EXPECT_EQ(heard->answer, alone(greedy(1, 20, 8), kCtx));
  EXPECT_EQ((*engine)->stats().n_steps_ahead, 0);
}

// Blocks end, sequences are sent back and come again: answers are theirs.
TEST(EngineOverlap, UnderPressureToo) {
  for (const TestSchedule& schedule : kTestSchedules) {
    EngineOptions options = schedule.options(kCtx);
    options.overlap = true;
    TestEngine engine(options, schedule.n_blocks);
    std::vector<std::shared_ptr<Heard>> heard;
    for (uint64_t i = 0; i < 12; ++i)
      heard.push_back(engine.submit(greedy(i % 3, 5 + 9 * static_cast<int>(i), 5 + static_cast<int>(i * 7 % 40))));
    ASSERT_EQ(engine.run(), "");
    for (uint64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(heard[i]->answer,
                alone(greedy(i % 3, 5 + 9 * static_cast<int>(i), 5 + static_cast<int>(i * 7 % 40)), kCtx));
    }
    EXPECT_GT(stats_of(engine).n_steps_ahead, 0);
  }
}

}  // namespace
}  // namespace quire
