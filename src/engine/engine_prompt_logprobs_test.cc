// Logprobs of a prompt's tokens: by the definition, whatever the chunks, the cache and preemption.
#include <gtest/gtest.h>

#include "engine/test_model.h"
#include "engine/test_schedules.h"

namespace quire {
namespace {

constexpr int kCtx = 400;

struct Scores final : EventSink {
  void on_token(SeqId, const TokenEvent& event) override {
    if (event.prompt) {
      EXPECT_TRUE(answer.empty()) << "the prompt's come first";
      prompt.push_back(event);
    } else {
      answer.push_back(event.id);
    }
  }
  void on_finish(SeqId, Finish how, const Usage& used, const std::string&) override {
    finish = how;
    usage = used;
  }
  std::vector<TokenEvent> prompt;
  std::vector<Token> answer;
  Finish finish = Finish::error;
  Usage usage;
};

Request scored(uint64_t seed, int n_prompt, int n_top) {
  Request r;
  r.prompt = random_tokens(seed, n_prompt);
  r.max_tokens = 12;
  r.sampling.seed = seed;
  r.sampling.n_prompt_logprobs = n_top;
  return r;
}

std::vector<Sampled> by_definition(const Request& request) {
  std::vector<Sampled> out;
  std::vector<float> logits(kTestVocab);
  SampleScratch scratch;
  uint64_t past = 0, state = 0;
  for (size_t p = 1; p < request.prompt.size(); ++p) {
    past = next_past(past, request.prompt[p - 1]);
    state = next_state(state, past);
    test_logits(state, false, logits.data());
    SampleParams params;
    params.forced = request.prompt[p];
    params.n_top = request.sampling.n_prompt_logprobs;
    test_sample(logits.data(), params, scratch, out.emplace_back());
  }
  return out;
}

void expect_scores(const Scores& got, const Request& request) {
  const std::vector<Sampled> want = by_definition(request);
  ASSERT_EQ(got.prompt.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got.prompt[i].id, request.prompt[i + 1]);
    EXPECT_EQ(got.prompt[i].logprob, want[i].logprob) << i;
    ASSERT_EQ(got.prompt[i].top.size(), want[i].top.size());
    for (size_t k = 0; k < want[i].top.size(); ++k) EXPECT_EQ(got.prompt[i].top[k].id, want[i].top[k].id);
  }
}

TEST(EnginePromptLogprobs, AreThoseOfTheDefinitionForAnyChunkCacheAndPreemption) {
  int64_t n_preempted = 0;
  for (const TestSchedule& schedule : kTestSchedules) {
    TestEngine t(schedule.options(kCtx), schedule.n_blocks);
    std::vector<std::shared_ptr<Scores>> sinks;
    std::vector<Request> wanted;
    for (uint64_t i = 0; i < 10; ++i) {
      Request r = scored(i % 4, 60 + static_cast<int>(i % 4) * 30, i % 3 == 0 ? 0 : 5);
      wanted.push_back(scored(i % 4, 60 + static_cast<int>(i % 4) * 30, i % 3 == 0 ? 0 : 5));
      sinks.push_back(std::make_shared<Scores>());
      ASSERT_TRUE(t.engine->submit(std::move(r), sinks.back()));
    }
    EXPECT_EQ(t.run(), "");
    n_preempted += t.engine->stats().n_preempted;
    for (size_t i = 0; i < sinks.size(); ++i) {
      expect_scores(*sinks[i], wanted[i]);
      EXPECT_EQ(sinks[i]->usage.n_cached, 0) << "cached rows have no logits";
      wanted[i].sampling.n_prompt_logprobs = -1;
      EXPECT_EQ(sinks[i]->answer, alone(wanted[i], kCtx).tokens);
    }
  }
  EXPECT_GT(n_preempted, 0);
}

TEST(EnginePromptLogprobs, LeaveThePromptForOthers) {
  EngineOptions options;
  options.n_ctx = kCtx;
  TestEngine t(options);
  const auto first = std::make_shared<Scores>();
  ASSERT_TRUE(t.engine->submit(scored(1, 100, 0), first));
  EXPECT_EQ(t.run(), "");
  const auto heard = t.submit(scored(1, 100, -1));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(heard->usage.n_cached, 96);
  Request alone_again = scored(1, 100, -1);
  alone_again.match_prefix = false;
  const auto unmatched = t.submit(std::move(alone_again));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(unmatched->usage.n_cached, 0);
  EXPECT_EQ(unmatched->answer, heard->answer);
}

TEST(EngineRules, OfTheRequestsOwnNamesActAlsoAcrossPreemption) {
  for (const int n_blocks : {0, 12}) {
    EngineOptions options;
    options.n_ctx = kCtx;
    options.max_seqs = 6;
    TestEngine t(options, n_blocks);
    std::vector<std::shared_ptr<Heard>> heard;
    std::vector<Request> wanted;
    for (uint64_t i = 0; i < 6; ++i) {
      const auto make = [i] {
        Request r = scored(i, 20, -1);
        r.max_tokens = 60;
        SamplingParams& s = r.sampling;
        s.repetition_penalty = 1.2F;
        s.frequency_penalty = 0.3F;
        s.dry_multiplier = i % 2 == 0 ? 0.8F : 0.0F;
        s.mirostat = static_cast<int>(i % 3);
        s.mirostat_tau = 2.0F;
        s.no_repeat_ngram_size = i % 2 == 0 ? 0 : 2;
        s.top_p = 0.9F;
        s.top_p_decay = 0.95F;
        s.bad_words = {{3}, {4, 5}};
        s.min_tokens = 30;
        r.stop_ids = {7, 8};
        return r;
      };
      heard.push_back(t.submit(make()));
      wanted.push_back(make());
    }
    EXPECT_EQ(t.run(), "");
    EXPECT_EQ(t.engine->stats().n_preempted > 0, n_blocks > 0);
    for (size_t i = 0; i < heard.size(); ++i) {
      EXPECT_EQ(heard[i]->answer, alone(wanted[i], kCtx));
      EXPECT_GE(heard[i]->answer.tokens.size(), 30U);
      EXPECT_EQ(std::count(heard[i]->answer.tokens.begin(), heard[i]->answer.tokens.end(), 3), 0);
    }
  }
}

}  // namespace
}  // namespace quire
