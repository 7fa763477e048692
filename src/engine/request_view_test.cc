// Why a sequence waits, as the scheduler's own values say it, one reason after the other.
#include "engine/request_view.h"

#include <gtest/gtest.h>

#include "engine/scheduler_world.h"

namespace quire {
namespace {

Request short_answer(uint64_t seed, int n_prompt, int max_tokens) {
  Request out;
  out.prompt = random_tokens(seed, n_prompt);
  out.max_tokens = max_tokens;
  return out;
}

struct Seen {
  explicit Seen(const World& w) { view_requests(*w.scheduler, 7, views); }
  const RequestView& of(SeqId id) const {
    for (const RequestView& view : views.views)
      if (view.id == id) return view;
    QR_CHECK(false, "not shown");
  }
  RequestViews views;
};

TEST(RequestViews, OfThoseThatRunHowFarTheyAre) {
  World w({.step_tokens = 64, .max_chunk = 20}, 10);
  w.add(1, 50).request.priority = 3;
  w.step();
  const Seen seen(w);
  EXPECT_EQ(seen.views.seen_ns, 7);
  const RequestView& v = seen.of(1);
  EXPECT_TRUE(v.running);
  EXPECT_EQ(v.hold, Hold::none);
  EXPECT_EQ(v.n_prompt, 50);
  EXPECT_EQ(v.n_computed, 20);
  EXPECT_EQ(v.priority, 3);
}

TEST(RequestViews, APlaceAndThoseBeforeIt) {
  World w({.max_seqs = 2, .step_tokens = 64}, 20);
  for (SeqId id = 1; id <= 5; ++id) w.add(id, 8);
  w.step();
  w.step();
  const Seen seen(w);
  EXPECT_EQ(seen.of(3).hold, Hold::places);
  EXPECT_EQ(seen.of(3).wanted, 2);
  EXPECT_EQ(seen.of(3).n_ahead, 2);
  EXPECT_EQ(seen.of(5).hold, Hold::behind);
  EXPECT_EQ(seen.of(5).wanted, 2);
  EXPECT_EQ(seen.of(5).other, 3U);
}

TEST(RequestViews, BlocksThatItNeedsAndThoseThatThereAre) {
  World w({.step_tokens = 512}, 10);
  w.add(1, 100);
  w.step();
  w.add(2, 60);
  w.step();
  const Seen seen(w);
  EXPECT_EQ(seen.of(2).hold, Hold::blocks);
  EXPECT_EQ(seen.of(2).wanted, 4 + 1) << "its own, its next token's among them, and one for who runs";
  EXPECT_EQ(seen.of(2).have, 10 - 7);
}

TEST(RequestViews, StatesAreNamedAsSuch) {
  World w({.step_tokens = 512}, 50, 2);
  w.add(1, 40);
  w.step();
  w.add(2, 40);
  w.step();
  EXPECT_EQ(Seen(w).of(2).hold, Hold::states);
}

TEST(RequestViews, TheTokensOfAStep) {
  World w({.step_tokens = 16, .max_chunk = 16}, 50);
  w.add(1, 100);
  w.add(2, 100);
  w.step();
  Seen seen(w);
  EXPECT_EQ(seen.of(2).hold, Hold::budget);
  EXPECT_EQ(seen.of(2).wanted, 16);
  EXPECT_FALSE(seen.of(2).running);
}

TEST(RequestViews, ALeaderThatComputesTheSamePrompt) {
  World w({.step_tokens = 64, .max_chunk = 16}, 50);
  w.add(1, 100);
  w.step();
  w.add(2, 100).tokens = random_tokens(1, 100);
  w.step();
  const RequestView v = Seen(w).of(2);
  EXPECT_EQ(v.hold, Hold::leader);
  EXPECT_EQ(v.other, 1U);
  EXPECT_EQ(v.wanted, 99);
  EXPECT_EQ(v.have, 32);
  EXPECT_TRUE(v.running);
}

TEST(RequestViews, WhoWasSentBackAndWhy) {
  World w({.step_tokens = 64}, 6);
  w.add(1, 30);
  w.add(2, 30);
  for (int i = 0; i < 60 && w.scheduler->counters().n_preempted == 0; ++i) w.step();
  const Seen seen(w);
  EXPECT_EQ(seen.of(2).n_preempted, 1);
  EXPECT_EQ(seen.of(2).sent_back, SentBack::for_blocks);
  EXPECT_EQ(seen.of(2).hold, Hold::pressure);
  EXPECT_EQ(seen.of(1).sent_back, SentBack::never);
}

TEST(RequestViews, AnothersTurn) {
  World w({.max_seqs = 2, .step_tokens = 64}, 20);
  w.add(1, 8);
  w.add(2, 8);
  w.step();
  auto seq = std::make_unique<Sequence>();
  seq->id = 3;
  seq->request.tenant = 9;
  seq->request.max_tokens = 4;
  seq->tokens = random_tokens(3, 8);
  seq->n_prompt = 8;
  w.scheduler->add(std::move(seq));
  w.step();
  EXPECT_EQ(Seen(w).of(3).hold, Hold::none);
  const RequestView v = Seen(w).of(2);
  EXPECT_FALSE(v.running);
  EXPECT_EQ(v.sent_back, SentBack::for_turn);
}

// Through the engine: what is shown is a look at most 100 ms old, and nothing of those that have ended.
TEST(RequestViews, TheEngineShowsThemNowAndThen) {
  constexpr int64_t kMs = 1'000'000;
  EngineOptions options;
  options.n_ctx = 256;
  options.max_seqs = 1;
  TestEngine e(options);
  const auto shown = [&] { return e.engine->requests().views; };
  EXPECT_TRUE(shown().empty());
  const auto first = e.submit(short_answer(1, 8, 4)), second = e.submit(short_answer(2, 8, 4));
  EXPECT_EQ(e.step(), "");
  ASSERT_EQ(shown().size(), 2U);
  EXPECT_EQ(shown()[0].id, first->seq);
  EXPECT_EQ(shown()[0].n_generated, 0) << "as it was before the pass";
  EXPECT_EQ(shown()[1].hold, Hold::places);
  e.clock.advance_ns(99 * kMs);
  EXPECT_EQ(e.step(), "");
  EXPECT_EQ(shown()[0].n_generated, 0);
  e.clock.advance_ns(kMs);
  EXPECT_EQ(e.step(), "");
  EXPECT_EQ(shown()[0].n_generated, 2);
  EXPECT_EQ(e.engine->requests().seen_ns, 100 * kMs);
  EXPECT_EQ(e.run(), "");
  EXPECT_TRUE(first->done() && second->done());
  EXPECT_TRUE(shown().empty());
}

}  // namespace
}  // namespace quire
