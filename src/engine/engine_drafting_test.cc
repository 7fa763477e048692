// Guesses change how many steps an answer takes and nothing of the answer: every kind of guess (test_proposer.h), every
// schedule, everything that shapes or ends an answer, against alone() token for token and logprob for logprob.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/test_model.h"
#include "engine/test_proposer.h"
#include "engine/test_schedules.h"

namespace quire {
namespace {

constexpr int kCtx = 160;
constexpr int kRequests = 24;

struct EndAt final : EndRule {
  explicit EndAt(int at) : left(at) {}
  bool accept(Token) override { return --left == 0; }
  void rollback(int) override { QR_CHECK(false, "an end rule hears committed tokens alone"); }
  int left;
};

// Forbids the token before, and cannot follow what no answer holds: it throws where it is led to it.
class Picky final : public LogitsRule {
 public:
  explicit Picky(std::vector<Token> answer) : answer_(std::move(answer)) {}
  void edits(LogitEdits& out) const override {
    if (!seen_.empty()) out.sparse.push_back({seen_.back(), -1e9F, 1.0F});
  }
  void accept(Token id) override {
    if (!answer_.empty() && (seen_.size() >= answer_.size() || answer_[seen_.size()] != id)) {
      throw std::runtime_error("no answer has this");
    }
    seen_.push_back(id);
  }
  void rollback(int n) override { seen_.resize(seen_.size() - static_cast<size_t>(n)); }

 private:
  const std::vector<Token> answer_;  // empty: follows everything
  std::vector<Token> seen_;
};

// Everything that makes an answer depend on what came before, and every way to end.
Request request(int i, const std::vector<Token>& answer = {}) {
  Request r;
  r.prompt = random_tokens(static_cast<uint64_t>(i % 3), 1 + i * 7 % 60);
  r.max_tokens = 1 + i * 5 % 40;
  r.sampling.temperature = i % 3 == 0 ? 0.0F : 0.8F;
  r.sampling.seed = static_cast<uint64_t>(i) * 77;
  r.sampling.n_logprobs = i % 4;
  if (i % 2 == 0) r.stop_ids = {static_cast<Token>(i % kPoison), static_cast<Token>((i * 3 + 1) % kPoison)};
  if (i % 4 == 1) {
    r.sampling.repetition_penalty = 1.3F;
    r.sampling.frequency_penalty = 0.5F;
    r.sampling.repeat_last_n = 6;
  }
  if (i % 5 == 2) r.sampling.no_repeat_ngram_size = 2;
  if (i % 5 == 3) r.sampling.dry_multiplier = 0.8F;
  if (i % 6 == 1) r.sampling.bad_words = {{1, 2}, {3}, {4, 5, 6}};
  if (i % 6 == 2) r.sampling.min_tokens = 12;
  if (i % 7 == 3) r.sampling.mirostat = 1 + i % 2;
  if (i % 7 == 4) r.sampling.top_p_decay = 0.9F;
  if (i % 7 == 5) r.sampling.logit_bias = {{static_cast<Token>(i % 9), 4.0F, 1.0F}};
  if (i % 8 == 5) r.sampling.n_prompt_logprobs = 0;
  if (i % 9 == 4) r.end = std::make_unique<EndAt>(7);
  if (i % 9 == 5) r.rules.push_back(std::make_unique<Picky>(answer));
  return r;
}

const std::vector<ExpectedAnswer>& truth() {
  static const std::vector<ExpectedAnswer> kAnswers = [] {
    std::vector<ExpectedAnswer> out;
    for (int i = 0; i < kRequests; ++i) {
      Request r = request(i);
      r.max_tokens = std::min(r.max_tokens, kCtx - static_cast<int>(r.prompt.size()));
      out.push_back(alone(r, kCtx));
    }
    return out;
  }();
  return kAnswers;
}

// What a sink hears of a prompt is no part of the answer.
class AnswerSink final : public EventSink {
 public:
  void on_token(SeqId id, const TokenEvent& event) override {
    if (event.prompt) return;
    heard.on_token(id, event);
    EXPECT_EQ(event.top.size(), n_top);
  }
  void on_finish(SeqId id, Finish finish, const Usage& usage, const std::string& error) override {
    heard.on_finish(id, finish, usage, error);
  }
  Heard heard;
  size_t n_top = 0;
};

struct Drafted {
  EngineStats stats;
  int64_t n_right = 0, n_accepted_right = 0;
  int64_t n_beside = 0;  // came true beside the draft proper
};

// All of the requests, twice where the second time meets what the first one cached.
Drafted run(EngineOptions options, int n_blocks, const std::vector<Guess>& guesses, int window = 0) {
  std::vector<std::shared_ptr<AnswerSink>> sinks;
  const auto proposer = std::make_shared<ScriptedProposer>(
      options.max_draft, kTestVocab, 7,
      [](SeqId id) -> std::span<const Token> { return truth()[(id - 1) % kRequests].tokens; }, guesses);
  TestEngine t(options, n_blocks, nullptr, window, proposer);
  for (int round = 0; round < 2; ++round) {
    sinks.clear();
    for (int i = 0; i < kRequests; ++i) {
      auto sink = std::make_shared<AnswerSink>();
      sink->n_top = i % 4 == 0 ? 0 : static_cast<size_t>(i % 4);
      EXPECT_TRUE(t.engine->submit(request(i, truth()[static_cast<size_t>(i)].tokens), sink));
      sinks.push_back(sink);
    }
    EXPECT_EQ(t.run(), "");
    for (size_t i = 0; i < sinks.size(); ++i) {
      EXPECT_EQ(sinks[i]->heard.answer, truth()[i]) << "request " << i << " " << sinks[i]->heard.error;
      EXPECT_EQ(sinks[i]->heard.n_finish, 1);
      EXPECT_EQ(sinks[i]->heard.n_accepted, sinks[i]->heard.usage.cost.n_accepted) << "request " << i;
    }
  }
  const Snapshot end = t.engine->snapshot();
  EXPECT_EQ(end.n_held_blocks, 0);
  EXPECT_EQ(proposer->n_known(), 0U) << "who ended is forgotten";
  Drafted out{end.stats, proposer->n_drafted[Guess::right], proposer->n_accepted[Guess::right], proposer->n_beside};
  int64_t n_drafted = 0, n_accepted = 0;
  for (const auto& [guess, n] : proposer->n_drafted) n_drafted += n;
  for (const auto& [guess, n] : proposer->n_accepted) n_accepted += n;
  EXPECT_EQ(out.stats.spent.computed[static_cast<size_t>(Cause::draft)], n_drafted) << "charged from the plan";
  EXPECT_EQ(out.stats.spent.n_accepted, n_accepted);
  return out;
}

TEST(EngineDrafting, NoGuessChangesAnAnswer) {
  for (size_t s = 0; s < kTestSchedules.size(); ++s) {
    for (const int max_draft : {1, 4, 9}) {
      for (const int window : {0, 20}) {
        SCOPED_TRACE("schedule " + std::to_string(s) + " draft " + std::to_string(max_draft) + " window " +
                     std::to_string(window));
        EngineOptions options = kTestSchedules[s].options(kCtx);
        options.max_draft = max_draft;
        options.max_side = max_draft == 4 ? 0 : ScriptedProposer::kSide;
        if (window > 0) options.n_window_blocks = 40;
        const Drafted all = run(options, kTestSchedules[s].n_blocks, {}, window);
        EXPECT_GT(all.stats.spent.n_accepted, 0);
        EXPECT_GT(all.stats.n_bad_drafts, 0);
        EXPECT_EQ(all.n_beside > 0, options.max_side > 0);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(EngineDrafting, EachKindOfGuessByItself) {
  for (int g = 0; g < static_cast<int>(Guess::n_guesses); ++g) {
    SCOPED_TRACE("guess " + std::to_string(g));
    EngineOptions options = kTestSchedules[2].options(kCtx);
    options.max_draft = 5;
    options.max_side = ScriptedProposer::kSide;
    const auto guess = static_cast<Guess>(g);
    const Drafted one = run(options, 0, {guess});
    const Cost& spent = one.stats.spent;
    const int64_t n_drafted = spent.computed[static_cast<size_t>(Cause::draft)];
    if (guess == Guess::right) {
      EXPECT_GT(spent.n_accepted * 10, n_drafted * 8) << "but for what lies past an end";
    } else if (guess == Guess::half || guess == Guess::branches || guess == Guess::beside) {
      EXPECT_GT(spent.n_accepted, 0);
      EXPECT_LT(spent.n_accepted, n_drafted);
    } else if (guess == Guess::wrong) {
      EXPECT_GT(n_drafted, 0);
      EXPECT_EQ(spent.n_accepted, 0);
    } else {
      EXPECT_EQ(n_drafted, 0) << "nothing of it was computed";
    }
    EXPECT_EQ(one.n_beside > 0, guess == Guess::beside);
    EXPECT_EQ(one.stats.n_bad_drafts > 0, guess > Guess::nothing);
  }
}

TEST(EngineDrafting, PreemptionAndHitsBesideGuesses) {
  EngineOptions options = kTestSchedules[3].options(kCtx);
  options.max_draft = 6;
  const Drafted tight = run(options, 10, {Guess::right, Guess::half, Guess::wrong});
  EXPECT_GT(tight.stats.n_preempted, 0);
  EXPECT_GT(tight.stats.n_cached_tokens, 0);
  EXPECT_GT(tight.stats.spent.n_accepted, 0);
}

// A branch whose tokens come true costs no step, wherever it leaves the draft.
TEST(EngineDrafting, ABranchThatIsRightSavesSteps) {
  Request r;
  r.prompt = random_tokens(1, 20);
  r.max_tokens = 41;
  const ExpectedAnswer answer = alone(r, kCtx);
  ASSERT_EQ(answer.tokens.size(), 41U);
  const auto steps = [&](int max_side) {
    const auto proposer = std::make_shared<ScriptedProposer>(
        4, kTestVocab, 1, [&](SeqId) -> std::span<const Token> { return answer.tokens; }, std::vector{Guess::beside});
    EngineOptions options = kTestSchedules[0].options(kCtx);
    options.max_draft = 4;
    options.max_side = max_side;
    TestEngine t(options, 0, nullptr, 0, proposer);
    Request asked;
    asked.prompt = r.prompt;
    asked.max_tokens = 41;
    const auto heard = t.submit(std::move(asked));
    EXPECT_EQ(t.run(), "");
    EXPECT_EQ(heard->answer, answer);
    EXPECT_EQ(proposer->n_beside > 0, max_side > 0);
    EXPECT_EQ(heard->n_accepted, heard->usage.cost.n_accepted);
    const EngineStats stats = t.engine->stats();
    EXPECT_EQ(stats.n_free_blocks + stats.n_cached_blocks, stats.n_blocks) << "branches have given their blocks back";
    const auto n_drafted = stats.spent.computed[static_cast<size_t>(Cause::draft)];
    EXPECT_EQ(std::accumulate(stats.n_drafted_at.begin(), stats.n_drafted_at.end(), int64_t{0}), n_drafted);
    EXPECT_EQ(std::accumulate(stats.n_accepted_at.begin(), stats.n_accepted_at.end(), int64_t{0}),
              stats.spent.n_accepted);
    return stats.n_steps;
  };
  const int64_t chain = steps(0), tree = steps(6);
  EXPECT_GT(steps(1), 0);
  EXPECT_LT(tree, chain);
}

TEST(EngineDrafting, ARightGuessSavesSteps) {
  Request r;
  r.prompt = random_tokens(1, 20);
  r.max_tokens = 41;
  Request again;
  again.prompt = r.prompt;
  again.max_tokens = r.max_tokens;
  const ExpectedAnswer answer = alone(again, kCtx);
  ASSERT_EQ(answer.tokens.size(), 41U);
  const auto proposer = std::make_shared<ScriptedProposer>(
      4, kTestVocab, 1, [&](SeqId) -> std::span<const Token> { return answer.tokens; }, std::vector{Guess::right});
  EngineOptions options = kTestSchedules[0].options(kCtx);
  options.max_draft = 4;
  TestEngine t(options, 0, nullptr, 0, proposer);
  t.model.on_pass = [&](const Batch&) { t.clock.advance_ns(1000); };
  const auto heard = t.submit(std::move(r));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(heard->answer, answer);
  EXPECT_EQ(t.engine->stats().n_steps, 1 + 8) << "the prompt and its first token; then five at a time";
  EXPECT_EQ(heard->usage.cost.n_accepted, 32);
  EXPECT_EQ(heard->usage.cost.computed[static_cast<size_t>(Cause::draft)], 32);
  EXPECT_EQ(heard->usage.cost.computed[static_cast<size_t>(Cause::fresh)], 20 + 8);
  EXPECT_EQ(heard->usage.cost.computed[static_cast<size_t>(Cause::recomputed)], 0);
  EXPECT_EQ(heard->usage.cost.decode_ns, 8 * 1000) << "a drafted stream is a stream";
}

TEST(EngineDrafting, ARequestBoundsItsOwnGuesses) {
  Request r;
  r.prompt = random_tokens(1, 20);
  r.max_tokens = 41;
  Request once;
  once.prompt = r.prompt;
  once.max_tokens = 41;
  const ExpectedAnswer answer = alone(once, kCtx);
  const auto steps = [&](int max_draft) {
    const auto proposer = std::make_shared<ScriptedProposer>(
        4, kTestVocab, 1, [&](SeqId) -> std::span<const Token> { return answer.tokens; }, std::vector{Guess::right});
    EngineOptions options = kTestSchedules[0].options(kCtx);
    options.max_draft = 4;
    TestEngine t(options, 0, nullptr, 0, proposer);
    Request asked;
    asked.prompt = r.prompt;
    asked.max_tokens = 41;
    asked.max_draft = max_draft;
    const auto heard = t.submit(std::move(asked));
    EXPECT_EQ(t.run(), "");
    EXPECT_EQ(heard->answer, answer);
    const EngineStats stats = t.engine->stats();
    EXPECT_EQ(stats.n_accepted_at[0], stats.n_drafts);
    EXPECT_EQ(stats.n_drafted_at[1] > 0, max_draft != 0 && max_draft != 1);
    return stats.n_steps;
  };
  EXPECT_EQ(steps(0), 41);
  EXPECT_EQ(steps(1), 1 + 20);
  EXPECT_EQ(steps(-1), 1 + 8);
  EXPECT_EQ(steps(60), 1 + 8) << "no more than the engine does";
}

// Steps take as long as they have rows, so no guess pays; the same answers, and soon nobody is asked.
TEST(EngineDrafting, WhatDoesNotPayIsNotAsked) {
  Request r;
  r.prompt = random_tokens(1, 10);
  r.max_tokens = 140;
  Request once;
  once.prompt = r.prompt;
  once.max_tokens = 140;
  const ExpectedAnswer answer = alone(once, kCtx);
  ASSERT_EQ(answer.tokens.size(), 140U);
  const auto proposer = std::make_shared<ScriptedProposer>(
      8, kTestVocab, 1, [&](SeqId) -> std::span<const Token> { return answer.tokens; }, std::vector{Guess::wrong});
  EngineOptions options = kTestSchedules[0].options(kCtx);
  options.max_draft = 8;
  options.adapt_draft = true;
  TestEngine t(options, 0, nullptr, 0, proposer);
  t.model.on_pass = [&](const Batch& batch) { t.clock.advance_ns(1000 * batch.ids.n_elements()); };
  const auto heard = t.submit(std::move(r));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(heard->answer, answer);
  const EngineStats stats = t.engine->stats();
  EXPECT_EQ(stats.n_steps, 140);
  EXPECT_GT(stats.n_drafts, 2) << "it has to see what guesses take";
  EXPECT_LT(stats.n_drafts, 24);
  EXPECT_EQ(stats.draft_depth, 0);
}

TEST(EngineDrafting, AnUnknownProposerIsRefusedByName) {
  EngineOptions options = kTestSchedules[0].options(kCtx);
  options.proposer = "clairvoyance";
  TestOps ops;
  const TestModel model(kCtx);
  ManualClock clock;
  EngineEnv env;
  env.clock = &clock;
  const auto made = make_engine(model, ops, options, env);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("\"clairvoyance\" is unknown"), std::string::npos) << made.error().message;
  options.proposer = "";
  options.max_draft = 65;
  const auto wide = make_engine(model, ops, options, env);
  ASSERT_FALSE(wide);
  EXPECT_NE(wide.error().message.find("max_draft must be 0 to 64, got 65"), std::string::npos) << wide.error().message;
}

}  // namespace
}  // namespace quire
