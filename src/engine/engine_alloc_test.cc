// Once a batch runs, a step takes no memory from the heap: neither plan, batch, commit nor emit, nor a table that
// grows, nor a block that becomes findable. Counted by an operator new of this program's own.
#include <gtest/gtest.h>

#include "base/count_news.h"
#include "engine/engine.h"
#include "engine/test_model.h"

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
  options.itl_target_ms = 20;
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
  Result<SeqId> submit(const std::shared_ptr<EventSink>& sink) {
    Request r;
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

}  // namespace
}  // namespace quire
