// Learned prefixes: what stands before a prompt that no text spells. Truth is the scripted model's answer to a prompt
// that begins with what the virtual tokens stand for. Blocks have 16 tokens.
#include <gtest/gtest.h>

#include <sstream>

#include "engine/engine.h"
#include "engine/recording.h"
#include "engine/replay.h"
#include "engine/test_model.h"
#include "engine/test_proposer.h"
#include "engine/test_schedules.h"

namespace quire {
namespace {

constexpr int kCtx = 200;
constexpr uint64_t kPrefix = 5;

EngineOptions options() {
  EngineOptions out;
  out.n_ctx = kCtx;
  return out;
}

// Behind nothing where n_virtual is 0.
Request request(uint64_t seed, int n_prompt, int n_virtual) {
  Request out;
  out.prompt = random_tokens(seed, n_prompt);
  out.prefix = n_virtual > 0 ? kPrefix : 0;
  out.max_tokens = 20;
  out.sampling.temperature = 0.8F;
  out.sampling.seed = seed;
  return out;
}

ExpectedAnswer truth(uint64_t seed, int n_prompt, int n_virtual) {
  Request whole = request(seed, n_prompt, n_virtual);
  const std::vector<Token> learned = learned_tokens(kPrefix, n_virtual);
  whole.prompt.insert(whole.prompt.begin(), learned.begin(), learned.end());
  return alone(whole, kCtx);
}

// On both sides of a block's edge, however it is scheduled, found or preempted.
TEST(EnginePrefix, AnswersAreThoseBehindWhatWasLearned) {
  for (const int n_virtual : {1, 15, 16, 17, 32, 40}) {
    for (const TestSchedule& schedule : kTestSchedules) {
      SCOPED_TRACE(std::to_string(n_virtual) + " in chunks of " + std::to_string(schedule.max_chunk));
      TestEngine t(schedule.options(kCtx),
                   TestSetup{.n_blocks = schedule.n_blocks, .prefixes = {{kPrefix, n_virtual}}});
      for (int round = 0; round < 2; ++round) {
        std::vector<std::shared_ptr<Heard>> heard;
        for (uint64_t i = 0; i < 12; ++i) {
          const int n_prompt = 1 + static_cast<int>(i % 6) * 9;
          heard.push_back(t.submit(request(i % 6, n_prompt, i % 4 == 3 ? 0 : n_virtual)));
        }
        ASSERT_EQ(t.run(), "");
        for (uint64_t i = 0; i < heard.size(); ++i) {
          const int n_prompt = 1 + static_cast<int>(i % 6) * 9;
          EXPECT_EQ(heard[i]->answer, truth(i % 6, n_prompt, i % 4 == 3 ? 0 : n_virtual)) << i;
          EXPECT_EQ(heard[i]->usage.n_prompt, n_prompt);
        }
      }
    }
  }
}

TEST(EnginePrefix, IsThereOnceAndCostsNothing) {
  constexpr int kVirtual = 40;  // two blocks and a half
  TestEngine t(options(), TestSetup{.prefixes = {{kPrefix, kVirtual}}});
  EXPECT_EQ(t.engine->stats().n_learned_blocks, 3);
  EXPECT_EQ(t.engine->snapshot().n_held_blocks, 3);
  EXPECT_EQ(t.engine->stats().n_rows, 0) << "what was learned is not computed";
  std::vector<std::shared_ptr<Heard>> heard;
  for (uint64_t i = 0; i < 4; ++i) {
    Request r = request(i, 5, kVirtual);
    r.cache_salt = i;
    heard.push_back(t.submit(std::move(r)));
  }
  ASSERT_EQ(t.step(), "");
  EXPECT_EQ(t.engine->snapshot().n_held_blocks, 3 + 4) << "each has one of its own: the half and its text";
  ASSERT_EQ(t.run(), "");
  EXPECT_EQ(t.engine->snapshot().n_held_blocks, 3);
  for (const auto& h : heard) {
    EXPECT_EQ(h->usage.cost.n_computed(), 5 + 20 - 1);
    EXPECT_EQ(h->usage.cost.n_reused, 0) << "virtual tokens are nobody's prompt";
    EXPECT_EQ(h->usage.n_cached, 0);
  }
  EXPECT_EQ(t.engine->stats().n_prompt_tokens, 4 * 5);
}

// Text behind a prefix is found again, in the block that it shares with the prefix too, and only behind that prefix.
TEST(EnginePrefix, TextBehindItIsFoundAgainAndByNobodyElse) {
  TestEngine t(options(), TestSetup{.prefixes = {{kPrefix, 20}, {kPrefix + 1, 20}}});
  const auto cached = [&](uint64_t prefix) {
    Request r = request(1, 50, 20);
    r.prefix = prefix;
    const auto heard = t.submit(std::move(r));
    EXPECT_EQ(t.run(), "");
    return heard->usage.n_cached;
  };
  EXPECT_EQ(cached(kPrefix), 0);
  EXPECT_EQ(cached(kPrefix), 49) << "all but the last, and virtual tokens are no text";
  EXPECT_EQ(cached(kPrefix + 1), 0);
  EXPECT_EQ(cached(0), 0);
}

// Two choices of one prompt: the second waits for the first, and takes the end of their past as a copy.
TEST(EnginePrefix, FollowersTakeWhatTheirLeaderComputed) {
  for (const int n_virtual : {3, 16, 21}) {
    for (const int n_prompt : {1, 2, 8, 30}) {
      SCOPED_TRACE(std::to_string(n_virtual) + " and " + std::to_string(n_prompt));
      TestEngine t(options(), TestSetup{.prefixes = {{kPrefix, n_virtual}}});
      const auto first = t.submit(request(1, n_prompt, n_virtual));
      const auto second = t.submit(request(1, n_prompt, n_virtual));
      ASSERT_EQ(t.run(), "");
      EXPECT_EQ(first->answer, truth(1, n_prompt, n_virtual));
      EXPECT_EQ(second->answer, first->answer);
      EXPECT_EQ(second->usage.cost.n_reused, n_prompt - 1);
    }
  }
}

TEST(EnginePrefix, WindowsSlideOverIt) {
  constexpr int kVirtual = 37;
  EngineOptions o = options();
  o.max_seqs = 3;
  o.step_tokens = 20;
  o.max_chunk = 8;
  o.n_window_blocks = 8;
  TestEngine t(o, TestSetup{.n_blocks = 24, .window = 24, .prefixes = {{kPrefix, kVirtual}}});
  std::vector<std::shared_ptr<Heard>> heard;
  for (uint64_t i = 0; i < 8; ++i)
    heard.push_back(t.submit(request(i % 3, 3 + 20 * static_cast<int>(i % 3), kVirtual)));
  ASSERT_EQ(t.run(), "");
  for (uint64_t i = 0; i < heard.size(); ++i)
    EXPECT_EQ(heard[i]->answer, truth(i % 3, 3 + 20 * static_cast<int>(i % 3), kVirtual)) << i;
}

TEST(EnginePrefix, ScoresAndHiddenStatesAreTheTexts) {
  struct Ear final : EventSink {
    void on_token(SeqId, const TokenEvent& event) override { n_scored += event.prompt ? 1 : 0; }
    void on_pooled(SeqId, std::span<const float> v) override { pooled.assign(v.begin(), v.end()); }
    void on_finish(SeqId, Finish, const Usage&, const std::string&) override {}
    int n_scored = 0;
    std::vector<float> pooled;
  };
  TestEngine t(options(), TestSetup{.prefixes = {{kPrefix, 20}}});
  const auto ear = std::make_shared<Ear>();
  Request r = request(1, 10, 20);
  r.sampling.n_prompt_logprobs = 0;
  r.pool = Pool::mean;
  ASSERT_TRUE(t.engine->submit(std::move(r), ear));
  ASSERT_EQ(t.run(), "");
  EXPECT_EQ(ear->n_scored, 9);
  ASSERT_EQ(ear->pooled.size(), 2U);
  EXPECT_EQ(ear->pooled[1], 24.5F) << "the mean of positions 20 to 29";
}

TEST(EnginePrefix, RefusesWhatIsNotThereOrDoesNotFit) {
  TestEngine t(options(), TestSetup{.prefixes = {{kPrefix, 100}}});
  const auto refusal = [&](uint64_t prefix, int n_prompt) -> std::string {
    Request r = request(1, n_prompt, 1);
    r.prefix = prefix;
    const auto id = t.engine->submit(std::move(r), std::make_shared<Heard>());
    return id ? "" : id.error().message;
  };
  EXPECT_EQ(refusal(6, 4), "prefix 6 is none of the 1 that are loaded");
  EXPECT_EQ(refusal(kPrefix, 100),
            "the prompt has 100 tokens; the context of 200 leaves room for at most 99 behind 100 virtual tokens");
  EXPECT_EQ(refusal(kPrefix, 99), "");
  EXPECT_EQ(t.run(), "");
  const auto made = [&](int n) {
    EngineEnv env;
    env.clock = &t.clock;
    env.prefixes = {t.model.learned(kPrefix, n)};
    const auto engine = make_engine(t.model, t.ops, options(), env);
    return engine ? "" : engine.error().message;
  };
  EXPECT_EQ(made(199), "a learned prefix has 199 virtual tokens; the context of 200 takes 1 to 198");
  EXPECT_EQ(made(198), "");
}

TEST(EnginePrefix, ARecordingIsPlayedAgain) {
  const std::string path = testing::TempDir() + "prefix_recording.jsonl";
  auto writer = RecordingWriter::create(path, int64_t{1} << 20);
  ASSERT_TRUE(writer);
  TestEngine t(options(), TestSetup{.n_blocks = 12, .recorder = writer->get(), .prefixes = {{kPrefix, 21}}});
  const std::vector<VirtualTokens> prefixes = {t.model.learned(kPrefix, 21)};
  (*writer)->begin(*t.engine, t.model.info(), prefixes);
  for (uint64_t i = 0; i < 6; ++i) t.submit(request(i % 3, 30, i % 2 == 0 ? 21 : 0));
  ASSERT_EQ(t.run(), "");
  ASSERT_TRUE((*writer)->finish());
  const auto recording = read_recording(path);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->n_blocks, 12);
  StepCost cost;
  const auto played = replay_exactly(*recording, cost);
  ASSERT_TRUE(played) << played.error().message;
  EXPECT_EQ(played->difference, "");
  EXPECT_EQ(played->hash, recording->hash);
  const auto without = replay_with_model(*recording, t.model, t.ops, {});
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().message,
            "the recording has the learned prefix 5, which is not among the 0 that are loaded");
  const auto again = replay_with_model(*recording, t.model, t.ops, {}, prefixes);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->hash, recording->hash);
}

}  // namespace
}  // namespace quire
