// Answers that go on behind what another engine has said of them: token for token what that one would have said next.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "engine/test_model.h"
#include "engine/test_proposer.h"
#include "engine/test_schedules.h"

namespace quire {
namespace {

constexpr int kCtx = 200, kMost = 24;

// Ends with the n-th token that is even, counted over the whole answer.
class EvenRule final : public EndRule {
 public:
  explicit EvenRule(int n) : left_(n) {}
  bool accept(Token id) override { return id % 2 == 0 && --left_ == 0; }
  void rollback(int) override {}

 private:
  int left_;
};

// Everything that depends on what was said before, and on how much.
Request request(uint64_t seed, int max_tokens = kMost) {
  Request out;
  out.prompt = random_tokens(seed, 1 + static_cast<int>(seed * 7 % 40));
  out.max_tokens = max_tokens;
  out.sampling.temperature = seed % 3 == 0 ? 0.0F : 0.9F;
  out.sampling.seed = seed;
  out.sampling.n_logprobs = 0;
  out.sampling.repetition_penalty = 1.3F;
  out.sampling.frequency_penalty = 0.4F;
  out.sampling.presence_penalty = 0.2F;
  out.sampling.no_repeat_ngram_size = 3;
  out.sampling.dry_multiplier = 0.8F;
  out.sampling.min_tokens = 5;
  out.stop_ids = {3};
  if (seed % 2 == 1) out.end = std::make_unique<EvenRule>(9);
  return out;
}

Request behind(uint64_t seed, const ExpectedAnswer& whole, size_t n) {
  Request out = request(seed);
  out.output.assign(whole.tokens.begin(), whole.tokens.begin() + static_cast<std::ptrdiff_t>(n));
  return out;
}

ExpectedAnswer rest(const ExpectedAnswer& whole, size_t n) {
  const auto at = static_cast<std::ptrdiff_t>(n);
  return {{whole.tokens.begin() + at, whole.tokens.end()},
          {whole.logprobs.begin() + at, whole.logprobs.end()},
          whole.finish};
}

TEST(EngineOutput, GoesOnBehindEveryTokenAsIfItHadSaidThemItself) {
  for (const TestSchedule& schedule : kTestSchedules) {
    for (const int window : {0, 20}) {
      EngineOptions options = schedule.options(kCtx);
      options.n_window_blocks = window > 0 ? 16 : 0;
      TestEngine t(options, TestSetup{.n_blocks = schedule.n_blocks, .window = window});
      for (uint64_t seed = 0; seed < 6; ++seed) {
        const ExpectedAnswer whole = alone(request(seed), kCtx);
        ASSERT_GT(whole.tokens.size(), 4U);
        std::vector<std::shared_ptr<Heard>> heard;
        for (size_t n = 0; n < whole.tokens.size(); ++n) heard.push_back(t.submit(behind(seed, whole, n)));
        ASSERT_EQ(t.run(), "");
        for (size_t n = 0; n < heard.size(); ++n) {
          EXPECT_EQ(heard[n]->answer, rest(whole, n)) << "seed " << seed << " behind " << n;
          const auto n_even = std::ranges::count_if(whole.tokens, [](Token id) { return id % 2 == 0; });
          const bool stop_id = whole.finish == Finish::stop && (seed % 2 == 0 || n_even < 9);
          EXPECT_EQ(heard[n]->usage.n_generated, static_cast<int>(whole.tokens.size()) + (stop_id ? 1 : 0));
          EXPECT_EQ(heard[n]->usage.n_prompt, static_cast<int>(request(seed).prompt.size()));
          EXPECT_LE(heard[n]->usage.n_cached, heard[n]->usage.n_prompt);
        }
      }
    }
  }
}

TEST(EngineOutput, GoesOnBesideGuesses) {
  constexpr uint64_t kSeed = 2;
  const ExpectedAnswer whole = alone(request(kSeed), kCtx);
  EngineOptions options = kTestSchedules[0].options(kCtx);
  options.max_draft = 4;
  const auto proposer = std::make_shared<ScriptedProposer>(options.max_draft, kTestVocab, kSeed,
                                                           [&](SeqId) { return std::span<const Token>(whole.tokens); });
  TestEngine t(options, TestSetup{.proposer = proposer});
  for (size_t n = 0; n < whole.tokens.size(); ++n) {
    const auto heard = t.submit(behind(kSeed, whole, n));
    ASSERT_EQ(t.run(), "");
    EXPECT_EQ(heard->answer, rest(whole, n)) << "behind " << n;
  }
}

TEST(EngineOutput, GoesOnBehindVirtualTokens) {
  constexpr uint64_t kPrefix = 5, kSeed = 4;
  Request spelt = request(kSeed);
  const std::vector<Token> learned = learned_tokens(kPrefix, 17);
  Request plain = request(kSeed);
  plain.sampling = {};
  plain.sampling.temperature = 0.9F;
  plain.sampling.seed = kSeed;
  plain.sampling.n_logprobs = 0;
  spelt.sampling = plain.sampling;
  spelt.prompt.insert(spelt.prompt.begin(), learned.begin(), learned.end());
  const ExpectedAnswer whole = alone(spelt, kCtx);
  TestEngine t(kTestSchedules[1].options(kCtx), TestSetup{.prefixes = {{kPrefix, 17}}});
  for (size_t n = 0; n < whole.tokens.size(); ++n) {
    Request r = behind(kSeed, whole, n);
    r.sampling = plain.sampling;
    r.prefix = kPrefix;
    const auto heard = t.submit(std::move(r));
    ASSERT_EQ(t.run(), "");
    EXPECT_EQ(heard->answer, rest(whole, n)) << "behind " << n;
  }
}

TEST(EngineOutput, WhatCannotGoOnIsRefused) {
  TestEngine t(kTestSchedules[0].options(kCtx));
  const auto refused = [&](Request r) {
    const auto id = t.engine->submit(std::move(r), std::make_shared<Heard>());
    EXPECT_FALSE(id.has_value());
    return id ? "" : id.error().message;
  };
  const auto with = [](std::vector<Token> output) {
    Request r = request(0, 4);
    r.output = std::move(output);
    return r;
  };
  EXPECT_NE(refused(with({1, 2, kTestVocab})).find("the answer so far names token 40"), std::string::npos);
  EXPECT_NE(refused(with({1, 2, 5, 7})).find("has 4 tokens, and may have 4"), std::string::npos);
  EXPECT_NE(refused(with({1, 3})).find("holds token 3, which ends it"), std::string::npos);
  Request ended = with({1, 2});
  ended.end = std::make_unique<EvenRule>(1);
  EXPECT_NE(refused(std::move(ended)).find("ends with its token 2 of 2"), std::string::npos);
  Request drawn = with({1});
  drawn.sampling.temperature = 0.9F;
  drawn.sampling.mirostat = 2;
  EXPECT_NE(refused(std::move(drawn)).find("mirostat"), std::string::npos);
  Request scored = with({1});
  scored.sampling.n_prompt_logprobs = 0;
  EXPECT_NE(refused(std::move(scored)).find("vectors"), std::string::npos);
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(t.engine->stats().n_submitted, 0);
}

}  // namespace
}  // namespace quire
