// Once a batch runs, a step takes no memory from the heap: neither plan, batch, commit nor emit, nor a table that
// grows, nor a block that becomes findable. Counted by an operator new of this program's own.
#include <gtest/gtest.h>

#include "base/count_news.h"
#include "engine/engine.h"
#include "engine/recording.h"
#include "engine/test_model.h"
#include "engine/test_proposer.h"

namespace quire {
namespace {

// Everything that is not the engine does nothing.
class QuietModel final : public Model {
 public:
  explicit QuietModel(int n_ctx) {
    info_.arch = info_.name = "quiet";
    info_.n_layers = 1;
    info_.n_vocab = kTestVocab;
    info_.n_ctx = n_ctx;
    info_.kv_layout.claim(KvGroup{}, 4);
  }
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override {
    return (n_tokens + n_out) * 4 + 4 * Arena::kAlign;
  }
  Tensor embed(const Pass& pass) const override { return pass.arena->alloc(DType::f32, {pass.batch->ids.dim(0), 1}); }
  Tensor layers(Tensor x, LayerRange, const Pass&) const override { return x; }
  Tensor head(Tensor, const Pass& pass) const override {
    return pass.arena->alloc(DType::f32, {pass.batch->out_rows.dim(0), 1});
  }
};
class QuietOps final : public TestOps {
 public:
  void sample(std::span<Sampled> out, Tensor, std::span<const SampleParams>) override {
    for (Sampled& sampled : out) {
      sampled.token = 1;
      sampled.ok = true;
    }
  }
};
class QuietSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent&) override { ++n_tokens; }
  void on_finish(SeqId, Finish, const Usage&, const std::string&) override {}
  int n_tokens = 0;
};

TEST(EngineAlloc, AStepOfARunningBatchTakesNoMemory) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  QuietOps ops;
  QuietModel model(1000);
  ManualClock clock;
  EngineOptions options;
  options.itl_target_ms = options.step_target_ms = 20;
  options.policy = "prefix";
  options.kv_bytes = 64 * 60 * 16 * 4;
  EngineEnv env;
  env.clock = &clock;
  const auto engine = make_engine(model, ops, options, env);
  ASSERT_TRUE(engine);
  const auto sink = std::make_shared<QuietSink>();
  for (uint64_t i = 0; i < 64; ++i) {
    Request r;
    r.prompt = random_tokens(i, 20 + static_cast<int>(i));
    r.max_tokens = 800;
    ASSERT_TRUE((*engine)->submit(std::move(r), sink));
  }
  const auto tokens_of_a_step = [&] {
    const int n = sink->n_tokens;
    clock.advance_ns(1'000'000);
    (*engine)->step();
    return sink->n_tokens - n;
  };
  while (tokens_of_a_step() < 64) {
  }
  for (int i = 0; i < 20; ++i) tokens_of_a_step();
  const int before = sink->n_tokens;
  const int64_t n_before = n_news;
  for (int i = 0; i < 200; ++i) tokens_of_a_step();
  EXPECT_EQ(n_news - n_before, 0);
  EXPECT_EQ(sink->n_tokens - before, 200 * 64) << "over twelve new blocks for each";
}

// An engine of which nothing runs yet, with room for two that wait.
struct Waiting {
  Waiting() : model(1000) {
    EngineOptions options;
    options.kv_bytes = 64 * 16 * 4;
    options.max_queue = 2;
    EngineEnv env;
    env.clock = &clock;
    engine = std::move(*make_engine(model, ops, options, env));
  }
  Result<SeqId> submit(const std::shared_ptr<EventSink>& sink, uint64_t tenant = 0) {
    Request r;
    r.tenant = tenant;
    r.prompt = random_tokens(1, 20);
    r.sampling.repetition_penalty = 1.5F;  // a rule
    return engine->submit(std::move(r), sink);
  }
  QuietOps ops;
  QuietModel model;
  ManualClock clock;
  std::unique_ptr<Engine> engine;
};

TEST(EngineAlloc, ASubmissionThatThrowsTakesNoPlaceInTheQueue) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  Waiting w;
  const auto sink = std::make_shared<QuietSink>();
  int n_thrown = 0;
  for (int64_t n = 1;; ++n) {
    news_until_failure = n;
    bool thrown = false, taken = false;
    try {
      taken = w.submit(sink).has_value();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    news_until_failure = 0;
    if (!thrown) {
      EXPECT_TRUE(taken) << "after " << n_thrown << " that threw";
      break;
    }
    ++n_thrown;
  }
  EXPECT_GT(n_thrown, 5);
  EXPECT_TRUE(w.submit(sink));
  EXPECT_FALSE(w.submit(sink)) << "two wait";
}

TEST(EngineAlloc, ACancellationNeedsNone) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  Waiting w;
  for (const bool runs : {false, true}) {
    const auto sink = std::make_shared<Heard>();
    const Result<SeqId> id = w.submit(sink);
    ASSERT_TRUE(id);
    if (runs) w.engine->step();
    news_stay_failed = true;
    news_until_failure = 1;
    w.engine->cancel(*id);
    news_until_failure = 0;
    news_stay_failed = false;
    w.engine->cancel(*id);
    w.engine->cancel(*id + 1);
    w.engine->step();
    EXPECT_EQ(sink->n_finish, 1);
    EXPECT_EQ(sink->answer.finish, Finish::cancelled);
    EXPECT_FALSE(w.engine->step()) << "nothing is left of it";
  }
  EXPECT_EQ(w.engine->stats().n_cancelled, 2);
}

TEST(EngineAlloc, ASequenceThatThereIsNoMemoryForHearsItsEnd) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  Waiting w;
  const auto sink = std::make_shared<Heard>();
  ASSERT_TRUE(w.submit(sink));
  news_until_failure = 1;
  w.engine->step();
  news_until_failure = 0;
  EXPECT_EQ(sink->n_finish, 1);
  EXPECT_EQ(sink->answer.finish, Finish::error);
  EXPECT_EQ(sink->error, "out of memory");
  EXPECT_EQ(w.engine->stats().n_failed, 1);
  const auto next = std::make_shared<QuietSink>();
  ASSERT_TRUE(w.submit(next));
  while (w.engine->step()) continue;
  EXPECT_EQ(next->n_tokens, 16);
}

// Takes no part in what fails.
struct SparedSink final : EventSink {
  void on_token(SeqId, const TokenEvent& event) override {
    const SpareNews spare;
    if (!event.prompt) tokens.push_back(event.id);
  }
  void on_finish(SeqId, Finish how, const Usage&, const std::string& why) override {
    const SpareNews spare;
    ++n_finish;
    finish = how;
    error = why;
  }
  std::vector<Token> tokens;
  std::string error;
  Finish finish = Finish::length;
  int n_finish = 0;
};

// Of those that stream nobody notices that there is no memory for one that comes: whatever is to be taken for it.
TEST(EngineAlloc, WhoFindsNoMemoryWhenAdmittedEndsAlone) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  Waiting w;
  const auto streams = std::make_shared<QuietSink>();
  Request first;
  first.prompt = random_tokens(2, 20);
  first.max_tokens = 600;
  ASSERT_TRUE(w.engine->submit(std::move(first), streams));
  ASSERT_TRUE(w.submit(std::make_shared<QuietSink>(), 1));  // what a step of two needs is there
  for (int i = 0; i < 20; ++i) w.engine->step();
  int n_failed = 0;
  for (int64_t n = 1;; ++n) {
    const auto sink = std::make_shared<SparedSink>();
    ASSERT_TRUE(w.submit(sink, 2));
    const int n_tokens = streams->n_tokens;
    news_until_failure = n;
    w.engine->step();
    const bool came = news_until_failure == 0;
    news_until_failure = 0;
    ASSERT_EQ(streams->n_tokens, n_tokens + 1) << "allocation " << n;
    ASSERT_EQ(w.engine->snapshot().check(), "") << "allocation " << n;
    if (!came) break;
    ++n_failed;
    ASSERT_EQ(sink->error, kNoMemory);
    ASSERT_EQ(w.engine->stats().n_running, 1);
    ASSERT_EQ(w.engine->stats().n_waiting, 0);
  }
  EXPECT_GE(n_failed, 3) << "its tenant, block table and tokens at least";
  EXPECT_EQ(w.engine->stats().n_failed, n_failed);
}

// Requests of every kind over a cache that is too small for them, of two tenants, some of them guessed ahead.
class Storm {
 public:
  Storm(const char* policy, bool recorded) {
    EngineOptions options;
    options.n_ctx = 200;
    options.max_seqs = 4;
    options.step_tokens = 48;
    options.max_chunk = 32;
    options.policy = policy;
    options.itl_target_ms = options.step_target_ms = 20;
    options.max_draft = 3;
    const auto truth = [this](SeqId id) -> std::span<const Token> { return (*truth_)[id - 1]; };
    if (recorded) recorder_ = std::move(*RecordingWriter::create(testing::TempDir() + "storm.jsonl", 1 << 20));
    t_ = std::make_unique<TestEngine>(options, 10, recorder_.get(), 0,
                                      std::make_shared<ScriptedProposer>(3, kTestVocab, 1, truth));
    if (recorded) recorder_->begin(*t_->engine, t_->model.info());
  }
  // With the n-th allocation of the steps failing, 0: none. Says what is wrong, or nothing.
  std::string run(int64_t n, bool stay_failed, const std::vector<std::vector<Token>>& truth) {
    truth_ = &truth;
    for (int i = 0; i < kEarly; ++i) submit();
    news_until_failure = n;
    for (int i = 0; i < 1000; ++i) {
      news_stay_failed = stay_failed;
      const bool busy = t_->engine->step();
      const SpareNews spare;
      news_stay_failed = false;  // there is memory again
      if (stay_failed && news_until_failure == 1) news_until_failure = 0;
      std::string wrong = t_->engine->snapshot().check();
      if (!wrong.empty()) return wrong;
      if (sinks.size() < kRequests) {
        submit();
      } else if (!busy) {
        return "";
      }
    }
    return "still busy";
  }

  std::vector<std::shared_ptr<SparedSink>> sinks;  // by id − 1
  static constexpr size_t kRequests = 12;

 private:
  static constexpr int kEarly = 6;
  void submit() {
    const SpareNews spare;
    const uint64_t i = sinks.size();
    Request r;
    r.prompt = random_tokens(i / 3, 30 + static_cast<int>(i % 3));  // three with a common past
    r.max_tokens = 20;
    r.tenant = i % 2;
    r.priority = static_cast<int>(i % 2);
    r.sampling.seed = i;
    r.sampling.n_logprobs = i % 4 == 0 ? 2 : -1;
    r.sampling.n_prompt_logprobs = i % 5 == 0 ? 2 : -1;
    r.sampling.repetition_penalty = i % 3 == 0 ? 1.3F : 1.0F;
    if (i % 6 == 1) r.sampling.allowed_ids = {1, 2, 3};
    r.pool = i == 7 ? Pool::mean : Pool::none;
    sinks.push_back(std::make_shared<SparedSink>());
    QR_CHECK(t_->engine->submit(std::move(r), sinks.back()).has_value());
  }

  const std::vector<std::vector<Token>>* truth_ = nullptr;
  std::unique_ptr<RecordingWriter> recorder_;
  std::unique_ptr<TestEngine> t_;
};

class EngineMemory : public testing::TestWithParam<std::tuple<const char*, bool, bool>> {};

TEST_P(EngineMemory, WhatFailsInAStepEndsRequestsOfThatStepAlone) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  const auto [policy, stay_failed, recorded] = GetParam();
  std::vector<std::vector<Token>> truth(Storm::kRequests);
  for (int twice = 0; twice < 2; ++twice) {  // the second time with guesses that come true
    Storm calm(policy, recorded);
    ASSERT_EQ(calm.run(0, false, truth), "");
    for (size_t i = 0; i < truth.size(); ++i) {
      ASSERT_EQ(calm.sinks[i]->finish, Finish::length);
      truth[i] = calm.sinks[i]->tokens;
    }
  }
  int n_alone = 0, n_together = 0;
  for (int64_t n = 1;; n += 1 + n / 100) {
    Storm storm(policy, recorded);
    ASSERT_EQ(storm.run(n, stay_failed, truth), "") << "allocation " << n;
    const bool came = news_until_failure == 0;
    news_until_failure = 0;
    if (!came) break;
    int n_failed = 0;
    for (size_t i = 0; i < truth.size(); ++i) {
      const SparedSink& sink = *storm.sinks[i];
      ASSERT_EQ(sink.n_finish, 1) << "allocation " << n;
      const bool failed = sink.finish == Finish::error;
      n_failed += failed ? 1 : 0;
      ASSERT_EQ(sink.error, failed ? kNoMemory : "") << "allocation " << n;
      ASSERT_TRUE(failed ? std::equal(sink.tokens.begin(), sink.tokens.end(), truth[i].begin())
                         : sink.tokens == truth[i])
          << "allocation " << n;
    }
    ASSERT_LE(n_failed, stay_failed ? 6 : 4) << "allocation " << n;  // all that come at once, or a step's
    n_alone += n_failed == 1 ? 1 : 0;
    n_together += n_failed > 1 ? 1 : 0;
  }
  EXPECT_GT(n_alone, 5);
  EXPECT_GT(n_together, 5);
}
INSTANTIATE_TEST_SUITE_P(All,
                         EngineMemory,
                         testing::Combine(testing::Values("fcfs", "priority", "prefix", "vtc"),
                                          testing::Bool(),
                                          testing::Bool()));

}  // namespace
}  // namespace quire
