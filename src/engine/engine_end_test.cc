// How a request is refused, ends, fails or is cancelled, and that nobody else notices.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace quire {
namespace {

constexpr int kCtx = 100;

EngineOptions options() {
  EngineOptions out;
  out.n_ctx = kCtx;
  return out;
}

Request request(uint64_t seed, int n_prompt, int max_tokens) {
  Request out;
  out.prompt = random_tokens(seed, n_prompt);
  out.max_tokens = max_tokens;
  out.sampling.temperature = 0.7F;
  out.sampling.seed = seed;
  return out;
}

std::string refusal(TestEngine& t, Request r, Code code) {
  const auto heard = std::make_shared<Heard>();
  const auto id = t.engine->submit(std::move(r), heard);
  EXPECT_FALSE(id);
  EXPECT_EQ(id.error().code, code);
  EXPECT_FALSE(t.engine->step()) << "nothing may be left behind";
  EXPECT_EQ(heard->n_finish, 0);
  EXPECT_EQ(t.engine->stats().n_submitted, 0);
  EXPECT_EQ(t.engine->snapshot().check(), "");
  return id ? "" : id.error().message;
}

TEST(EngineSubmit, RefusesWhatCanNeverRunWithLimitAndValue) {
  TestEngine t(options(), 4);
  EXPECT_EQ(refusal(t, request(1, kCtx, 1), Code::invalid),
            "the prompt has 100 tokens; the context of 100 leaves room for at most 99");
  EXPECT_EQ(refusal(t, request(1, 0, 1), Code::invalid), "the prompt has no tokens; at least 1 is needed");
  EXPECT_EQ(refusal(t, request(1, 3, 0), Code::invalid), "max_tokens must be at least 1, got 0");
  EXPECT_EQ(refusal(t, request(1, 60, 6), Code::exhausted),
            "prompt and answer of 65 tokens need 5 cache blocks; there are 4");
  for (const Token bad : {-1, kTestVocab, 1 << 30}) {
    Request r = request(1, 3, 1);
    r.prompt[1] = bad;
    EXPECT_EQ(refusal(t, std::move(r), Code::invalid),
              "the prompt names token " + std::to_string(bad) + "; the vocabulary has 0 to 39");
    r = request(1, 3, 1);
    r.sampling.logit_bias = {{bad, 1.0F, 1.0F}};
    EXPECT_EQ(refusal(t, std::move(r), Code::invalid),
              "logit_bias names token " + std::to_string(bad) + "; the vocabulary has 0 to 39");
  }
}

TEST(EngineSubmit, WhatJustFitsRunsToItsEnd) {
  TestEngine t(options(), 4);
  const auto heard = t.submit(request(1, 60, 5));  // 64 tokens in 4 blocks: the last one's keys are never needed
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(heard->answer, alone(request(1, 60, 5), kCtx));
  EXPECT_EQ(heard->usage.n_generated, 5);
}

TEST(EngineSubmit, AnswersAreCutAtTheContext) {
  TestEngine t(options(), 7);  // room for one context and not for what was asked
  const auto heard = t.submit(request(1, 99, 1000));
  const auto longer = t.submit(request(2, 90, 1 << 30));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(heard->usage.n_generated, 1);
  EXPECT_EQ(longer->usage.n_generated, 10);
  EXPECT_EQ(longer->answer.finish, Finish::length);
  EXPECT_EQ(longer->answer, alone(request(2, 90, 1000), kCtx));
}

TEST(EngineSubmit, TheQueueHasALimit) {
  EngineOptions o = options();
  o.max_queue = 2;
  o.max_seqs = 1;
  TestEngine t(o);
  std::vector<std::shared_ptr<Heard>> heard;
  const auto try_submit = [&] {
    heard.push_back(std::make_shared<Heard>());
    const auto id = t.engine->submit(request(1, 5, 3), heard.back());
    if (id) return true;
    heard.pop_back();
    EXPECT_EQ(id.error().message, "the queue is full: 2 requests wait");
    EXPECT_EQ(id.error().code, Code::exhausted);
    return false;
  };
  EXPECT_TRUE(try_submit());
  EXPECT_TRUE(try_submit());
  EXPECT_FALSE(try_submit());
  EXPECT_EQ(t.step(), "");  // one runs now
  EXPECT_TRUE(try_submit());
  EXPECT_FALSE(try_submit());
  t.engine->cancel(2);
  EXPECT_EQ(t.step(), "");
  EXPECT_TRUE(try_submit());
  EXPECT_FALSE(try_submit());
  EXPECT_EQ(t.run(), "");
  for (const auto& h : heard) EXPECT_EQ(h->n_finish, 1);
}

TEST(EngineSubmit, PlacesAreReservedTogetherOrNotAtAll) {
  EngineOptions o = options();
  o.max_queue = 16;  // 18 in all
  o.max_seqs = 1;
  TestEngine t(o);
  std::vector<std::shared_ptr<Heard>> heard;
  const auto submit = [&](uint64_t tenant, std::shared_ptr<QueuePlaces> places) {
    Request r = request(1, 5, 3);
    r.tenant = tenant;
    r.places = std::move(places);
    heard.push_back(std::make_shared<Heard>());
    return t.engine->submit(std::move(r), heard.back());
  };
  auto first = t.engine->reserve(1, 12);
  ASSERT_TRUE(first);
  EXPECT_EQ(t.engine->reserve(1, 5).error().message,
            "the queue has no room for 5 sequences of this client: 12 requests wait, of one client at most 16");
  EXPECT_EQ(t.engine->reserve(2, 7).error().message,
            "the queue has no room for 7 sequences: 12 requests wait, at most 18 can");
  EXPECT_TRUE(t.engine->reserve(1, 4)) << "what was refused holds nothing; this goes back at once";
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(submit(2, nullptr));
  EXPECT_FALSE(submit(2, nullptr)) << "places of another";
  heard.pop_back();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(submit(1, *first));
  EXPECT_EQ((*first)->n(), 9);
  first->reset();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(submit(3, nullptr)) << i;
  EXPECT_EQ(t.run(), "");
  for (const auto& h : heard) EXPECT_EQ(h->n_finish, 1);
  EXPECT_TRUE(t.engine->reserve(1, 16)) << "all have left their places";
}

TEST(EngineSubmit, WhoAsksForTheWholeQueueLeavesPlacesToOthers) {
  EngineOptions o = options();
  o.max_queue = 32;
  o.max_seqs = 1;
  TestEngine t(o);
  std::vector<std::shared_ptr<Heard>> heard;
  std::string why;
  const auto try_submit = [&](uint64_t tenant) {
    Request r = request(1, 5, 3);
    r.tenant = tenant;
    heard.push_back(std::make_shared<Heard>());
    const auto id = t.engine->submit(std::move(r), heard.back());
    if (id) return true;
    heard.pop_back();
    why = id.error().message;
    EXPECT_EQ(id.error().code, Code::exhausted);
    return false;
  };
  int n = 0;
  while (try_submit(1)) ++n;
  EXPECT_EQ(n, 32);
  EXPECT_EQ(why, "the queue is full for this client: 32 requests wait, of one client at most 32");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(try_submit(2));
  EXPECT_TRUE(try_submit(3));
  EXPECT_FALSE(try_submit(4));
  EXPECT_EQ(why, "the queue is full: 36 requests wait");
  EXPECT_EQ(t.step(), "");  // one runs now
  EXPECT_FALSE(try_submit(1));
  EXPECT_TRUE(try_submit(4));
  EXPECT_EQ(t.run(), "");
  for (const auto& h : heard) EXPECT_EQ(h->n_finish, 1);
  for (n = 0; try_submit(1);) ++n;
  EXPECT_EQ(n, 32) << "what was there before has left its places";
}

TEST(EngineSubmit, WhoWasAdmittedWaitsNoMoreWhileTheStepComputes) {
  EngineOptions o = options();
  o.max_queue = 1;
  TestEngine t(o);
  std::vector<std::shared_ptr<Heard>> heard = {t.submit(request(1, 5, 2))};
  t.model.on_pass = [&](const Batch&) {
    if (heard.size() == 1) heard.push_back(t.submit(request(2, 5, 2)));
  };
  EXPECT_EQ(t.run(), "");
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(heard[1]->n_finish, 1);
}

TEST(EngineEnd, AStopIdEndsAndIsNotPartOfTheAnswer) {
  const ExpectedAnswer all = alone(request(5, 20, 30), kCtx);
  Request r = request(5, 20, 30);
  r.stop_ids = {all.tokens[7]};
  const auto first = std::find(all.tokens.begin(), all.tokens.end(), all.tokens[7]);
  TestEngine t(options());
  const auto heard = t.submit(std::move(r));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(heard->answer.finish, Finish::stop);
  EXPECT_EQ(heard->answer.tokens, std::vector<Token>(all.tokens.begin(), first));
}

// Ends with the n-th token.
struct EndAfter final : EndRule {
  explicit EndAfter(int wanted) : n(wanted) {}
  bool accept(Token) override { return --n == 0; }
  void rollback(int undo) override { n += undo; }
  int n;
};

TEST(EngineEnd, AnEndRuleEndsWithItsToken) {
  const ExpectedAnswer all = alone(request(5, 20, 30), kCtx);
  for (const int n : {1, 4, 30}) {
    Request r = request(5, 20, 30);
    r.end = std::make_unique<EndAfter>(n);
    TestEngine t(options());
    const auto heard = t.submit(std::move(r));
    EXPECT_EQ(t.run(), "");
    EXPECT_EQ(heard->answer.finish, Finish::stop);
    EXPECT_EQ(heard->answer.tokens, std::vector<Token>(all.tokens.begin(), all.tokens.begin() + n));
  }
}

// Allows one token only: the one after the last that it saw.
struct Successor final : LogitsRule {
  void edits(LogitEdits& out) const override {
    out.bitmask.assign((kTestVocab + 31) / 32, 0);
    out.bitmask[static_cast<size_t>(next) / 32] = 1U << (next % 32);
  }
  void accept(Token id) override { next = (id + 1) % kPoison; }
  void rollback(int) override {}
  Token next = 3;
};

TEST(EngineEnd, RulesShapeEveryTokenAlsoAcrossPreemption) {
  for (const int n_blocks : {0, 5}) {
    TestEngine t(options(), n_blocks);
    std::vector<std::shared_ptr<Heard>> heard;
    for (uint64_t i = 0; i < 4; ++i) {
      Request r = request(i, 20, 40);
      r.rules.push_back(std::make_unique<Successor>());
      heard.push_back(t.submit(std::move(r)));
    }
    EXPECT_EQ(t.run(), "");
    EXPECT_EQ(t.engine->stats().n_preempted > 0, n_blocks > 0);
    for (const auto& h : heard) {
      ASSERT_EQ(h->answer.tokens.size(), 40U);
      for (size_t i = 0; i < 40; ++i) EXPECT_EQ(h->answer.tokens[i], static_cast<Token>((3 + i) % kPoison));
    }
  }
}

TEST(EngineEnd, LogitBiasForbidsAndForces) {
  TestEngine t(options());
  Request forced = request(6, 20, 10);
  forced.sampling.logit_bias = {{17, 100.0F, 1.0F}};
  Request forbidden = request(6, 20, 10);
  const Token usual = alone(request(6, 20, 10), kCtx).tokens[0];
  forbidden.sampling.logit_bias = {{usual, -std::numeric_limits<float>::infinity(), 1.0F}};
  const auto a = t.submit(std::move(forced));
  const auto b = t.submit(std::move(forbidden));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(a->answer.tokens, std::vector<Token>(10, 17));
  EXPECT_EQ(std::count(b->answer.tokens.begin(), b->answer.tokens.end(), usual), 0);
}

TEST(EngineEnd, ARowThatCannotBeSampledEndsItsOwnSequenceOnly) {
  TestEngine t(options());
  std::vector<std::shared_ptr<Heard>> heard;
  for (uint64_t i = 0; i < 6; ++i) {
    Request r = request(i, 40, 20);
    if (i == 2) r.prompt[35] = kPoison;  // NaN logits
    if (i == 4) {                        // nothing allowed
      std::vector<Edit> none;
      for (Token id = 0; id < kTestVocab; ++id) none.push_back({id, -std::numeric_limits<float>::infinity(), 1.0F});
      r.sampling.logit_bias = std::move(none);
    }
    heard.push_back(t.submit(std::move(r)));
  }
  EXPECT_EQ(t.run(), "");
  for (uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(heard[i]->n_finish, 1);
    if (i == 2 || i == 4) {
      EXPECT_EQ(heard[i]->answer.finish, Finish::error);
      EXPECT_NE(heard[i]->error.find("position 40"), std::string::npos) << heard[i]->error;
    } else {
      EXPECT_EQ(heard[i]->error, "");
      EXPECT_EQ(heard[i]->answer, alone(request(i, 40, 20), kCtx));
    }
  }
  EXPECT_EQ(t.engine->stats().n_failed, 2);
}

// Throws while the n-th token is chosen, or once it is accepted.
struct Throwing final : LogitsRule {
  Throwing(int tokens_until, bool in_accept) : n(tokens_until), on_accept(in_accept) {}
  void edits(LogitEdits&) const override {
    if (!on_accept && n == 0) throw std::runtime_error("no edits");
  }
  void accept(Token) override {
    if (on_accept && n == 0) throw std::bad_alloc();
    --n;
  }
  void rollback(int) override {}
  int n;
  bool on_accept;
};

TEST(EngineEnd, WhatARuleThrowsEndsItsOwnSequenceOnly) {
  for (const bool on_accept : {false, true}) {
    TestEngine t(options());
    std::vector<std::shared_ptr<Heard>> heard;
    for (uint64_t i = 0; i < 3; ++i) {
      Request r = request(i, 40, 20);
      if (i == 1) r.rules.push_back(std::make_unique<Throwing>(7, on_accept));
      heard.push_back(t.submit(std::move(r)));
    }
    EXPECT_EQ(t.run(), "");
    for (uint64_t i = 0; i < 3; ++i) {
      ExpectedAnswer truth = alone(request(i, 40, 20), kCtx);
      if (i == 1) {
        truth.tokens.resize(7);
        truth.logprobs.resize(7);
        truth.finish = Finish::error;
      }
      EXPECT_EQ(heard[i]->answer, truth);
      EXPECT_EQ(heard[i]->usage.n_generated, static_cast<int>(truth.tokens.size()));
    }
    EXPECT_NE(heard[1]->error.find(on_accept ? kNoMemory : "no edits"), std::string::npos) << heard[1]->error;
  }
}

TEST(EngineEnd, WhatASinkThrowsEndsItsOwnSequenceOnly) {
  struct ThrowingSink final : EventSink {
    void on_token(SeqId, const TokenEvent&) override {
      if (++n_tokens == 7) throw std::bad_alloc();
    }
    void on_finish(SeqId, Finish how, const Usage&, const std::string&) override {
      finish = how;
      throw std::runtime_error("and again");
    }
    int n_tokens = 0;
    Finish finish = Finish::stop;
  };
  TestEngine t(options());
  const auto first = t.submit(request(0, 40, 20));
  const auto sink = std::make_shared<ThrowingSink>();
  ASSERT_TRUE(t.engine->submit(request(1, 40, 20), sink));
  const auto last = t.submit(request(2, 40, 20));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(sink->n_tokens, 7);
  EXPECT_EQ(sink->finish, Finish::error);
  EXPECT_EQ(first->answer, alone(request(0, 40, 20), kCtx));
  EXPECT_EQ(last->answer, alone(request(2, 40, 20), kCtx));
  EXPECT_EQ(t.engine->stats().n_failed, 1);
}

TEST(EngineEnd, AStepThatThrowsEndsThoseItWasForAndNobodyElse) {
  EngineOptions two = options();
  two.max_seqs = 2;
  TestEngine t(two);
  std::vector<std::shared_ptr<Heard>> heard;
  for (uint64_t i = 0; i < 4; ++i) heard.push_back(t.submit(request(i % 2, 40, 20)));
  int n_passes = 0;
  t.model.on_pass = [&](const Batch&) {
    if (++n_passes == 5) throw std::runtime_error("a device that is gone");
  };
  EXPECT_EQ(t.run(), "");
  for (uint64_t i = 0; i < 4; ++i) {
    const ExpectedAnswer truth = alone(request(i % 2, 40, 20), kCtx);
    EXPECT_EQ(heard[i]->n_finish, 1);
    if (i >= 2) {
      EXPECT_EQ(heard[i]->answer, truth);
      continue;
    }
    EXPECT_EQ(heard[i]->answer.finish, Finish::error);
    EXPECT_EQ(heard[i]->error, "the step failed: a device that is gone");
    EXPECT_TRUE(std::equal(heard[i]->answer.tokens.begin(), heard[i]->answer.tokens.end(), truth.tokens.begin()));
  }
  EXPECT_EQ(t.engine->stats().n_failed, 2);
  EXPECT_EQ(t.engine->snapshot().n_held_blocks, 0);
}

TEST(EngineEnd, WhatLedToAnErrorIsNotShared) {
  TestEngine t(options());
  for (int turn = 0; turn < 2; ++turn) {
    Request r = request(1, 40, 5);
    r.prompt[0] = kPoison;
    const auto heard = t.submit(std::move(r));
    EXPECT_EQ(t.run(), "");
    EXPECT_EQ(heard->answer.finish, Finish::error);
    EXPECT_EQ(heard->usage.n_cached, 0);
  }
  EXPECT_EQ(t.engine->snapshot().n_indexed_blocks, 0);
}

// Queued, in the middle of its prompt, decoding: one step later its blocks are free or in the tree.
TEST(EngineCancel, FreesWithinOneStepWhereverTheSequenceIs) {
  EngineOptions o = options();
  o.max_seqs = 2;
  o.step_tokens = 8;
  TestEngine t(o);
  const auto decoding = t.submit(request(1, 4, 90));
  const auto mid_prompt = t.submit(request(2, 60, 10));
  const auto queued = t.submit(request(3, 60, 10));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(t.step(), "");
  ASSERT_GT(decoding->answer.tokens.size(), 0U);
  ASSERT_EQ(mid_prompt->answer.tokens.size(), 0U);
  EXPECT_EQ(t.engine->stats().n_running, 2);
  EXPECT_EQ(t.engine->stats().n_waiting, 1);
  for (const auto& heard : {queued, mid_prompt, decoding}) {
    t.engine->cancel(heard->seq);
    t.engine->cancel(heard->seq);  // twice: the second finds nobody
    EXPECT_EQ(t.step(), "");
    EXPECT_EQ(heard->n_finish, 1);
    EXPECT_EQ(heard->answer.finish, Finish::cancelled);
  }
  EXPECT_EQ(t.engine->snapshot().n_held_blocks, 0);
  EXPECT_EQ(t.engine->stats().n_cancelled, 3);
  EXPECT_FALSE(t.engine->step());
  t.engine->cancel(decoding->seq);
  t.engine->cancel(12345);
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(decoding->n_finish, 1);
}

TEST(EngineCancel, BeforeTheFirstStepStillTellsTheSink) {
  TestEngine t(options());
  const auto heard = t.submit(request(1, 4, 5));
  t.engine->cancel(heard->seq);
  EXPECT_EQ(t.step(), "");
  EXPECT_EQ(heard->n_finish, 1);
  EXPECT_TRUE(heard->answer.tokens.empty());
  EXPECT_EQ(t.n_wakes, 1) << "whoever reads the sink must hear of it";
}

TEST(EngineStop, CancelsWhatIsLeftAndRefusesWhatComesLater) {
  EngineOptions o = options();
  o.max_seqs = 1;
  TestEngine t(o);
  const auto running = t.submit(request(1, 4, 50));
  const auto waiting = t.submit(request(2, 4, 50));
  EXPECT_EQ(t.step(), "");
  const auto arriving = t.submit(request(3, 4, 50));
  const int n_wakes = t.n_wakes;
  t.engine->stop();
  for (const auto& heard : {running, waiting, arriving}) {
    EXPECT_EQ(heard->n_finish, 1);
    EXPECT_EQ(heard->answer.finish, Finish::cancelled);
  }
  EXPECT_EQ(t.n_wakes, n_wakes + 1);
  const auto late = std::make_shared<Heard>();
  const auto id = t.engine->submit(request(4, 4, 50), late);
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, Code::cancelled);
  t.engine->cancel(1);
  t.engine->stop();
  EXPECT_EQ(late->n_finish, 0);
  EXPECT_EQ(t.engine->snapshot().check(), "");
  EXPECT_EQ(t.engine->stats().n_cancelled, 3);
}

TEST(EngineUsage, TimesCountFromSubmitAlsoAtTimeZero) {
  EngineOptions o = options();
  o.max_seqs = 1;
  TestEngine t(o);
  t.model.on_pass = [&](const Batch&) { t.clock.advance_ns(10); };
  const auto first = t.submit(request(1, 4, 3));
  const auto second = t.submit(request(2, 4, 2));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(first->usage.queued_ns, 0);
  EXPECT_EQ(first->usage.first_token_ns, 10);
  EXPECT_EQ(first->usage.total_ns, 30);
  EXPECT_EQ(second->usage.queued_ns, 30);
  EXPECT_EQ(second->usage.first_token_ns, 40);
  EXPECT_EQ(second->usage.total_ns, 50);

  TestEngine still(options());  // a clock that stands at zero
  const auto heard = still.submit(request(1, 4, 3));
  EXPECT_EQ(still.step(), "");
  still.clock.advance_ns(7);
  EXPECT_EQ(still.run(), "");
  EXPECT_EQ(heard->usage.first_token_ns, 0);
  EXPECT_EQ(heard->usage.total_ns, 7);
}

}  // namespace
}  // namespace quire
