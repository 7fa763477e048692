// Steps with the CPU backend take no memory from the heap, be it prompts or decoding: norms, products, experts,
// attention and sampling work in what the first steps left. Counted by an operator new of this program's own, on all
// threads.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_ops.h"
#include "base/check.h"
#include "base/count_news.h"
#include "engine/engine.h"
#include "tests/support/tiny_medusa.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

class CountingSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent&) override { ++n_tokens; }
  void on_finish(SeqId, Finish, const Usage&, const std::string&) override {}
  int n_tokens = 0;
};

struct Work {
  int n_threads = 1;
  float temperature = 0;
  TinyShape shape{};
  int n_seqs = 4, n_prompt = 300, n_generate = 250;
  int step_tokens = 512;
  bool heads = false;  // Medusa heads guess
};

// An engine with all of its sequences submitted.
class Running {
 public:
  explicit Running(const Work& work)
      : ops_(*make_cpu_ops(CpuOptions{.n_threads = work.n_threads, .isa = "", .pin = false})),
        tiny_(work.shape, "q4_0", 7),
        model_(*tiny_.load(*ops_, "f16")) {
    EngineOptions options;
    options.recompute_share = 1;  // all come in, and some have to go
    options.max_seqs = work.n_seqs;
    options.n_ctx = work.n_prompt + work.n_generate;
    options.step_tokens = options.max_chunk = work.step_tokens;
    options.prefix_cache = false;
    options.kv_bytes = int64_t{work.n_seqs} * (options.n_ctx + 40) * model_->info().kv_layout.token_bytes();
    EngineEnv env;
    env.clock = &clock_;
    if (work.heads) {
      heads_ = tiny_heads(model_->info(), tiny_.file().find("output.weight"), *ops_);
      env.medusa = &heads_;
      options.proposer = "medusa";
      options.max_draft = 4;
      options.max_side = 3;
    }
    engine_ = *make_engine(*model_, *ops_, options, env);
    for (int s = 0; s < work.n_seqs; ++s) submit(work, s);
  }

  // The first `warm` steps may take memory. How often the `counted` ones after them did.
  int64_t news(int warm, int counted) {
    for (int i = 0; i < warm; ++i) engine_->step();
    n_before_ = sink_->n_tokens;
    const int64_t before = n_news;
    for (int i = 0; i < counted; ++i) engine_->step();
    return n_news - before;
  }
  int n_tokens() const { return sink_->n_tokens - n_before_; }  // of the counted steps

 private:
  void submit(const Work& work, int s) {
    Request request;
    for (int t = 0; t < work.n_prompt; ++t) request.prompt.push_back((t * 7 + s) % 105);
    request.max_tokens = work.n_generate;
    request.sampling.temperature = work.temperature;
    request.sampling.top_k = work.temperature > 0 ? 20 : 0;
    request.sampling.top_p = work.temperature > 0 ? 0.9F : 1.0F;
    request.sampling.seed = 1;
    QR_CHECK(engine_->submit(std::move(request), sink_).has_value());
  }

  std::unique_ptr<Ops> ops_;
  TinyModel tiny_;
  std::unique_ptr<Model> model_;
  SystemClock clock_;
  MedusaHeads heads_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<CountingSink> sink_ = std::make_shared<CountingSink>();
  int n_before_ = 0;
};

class SteadyState : public testing::TestWithParam<int> {  // threads
 protected:
  void SetUp() override {
    if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  }
};

// From position 300 on, so that attention cuts the keys of a row into chunks, and up to 500, within the second chunk.
TEST_P(SteadyState, DecodingTakesNoMemory) {
  for (const float temperature : {0.0F, 0.9F}) {
    Running running({.n_threads = GetParam(), .temperature = temperature});
    EXPECT_EQ(running.news(44, 150), 0) << "temperature " << temperature;
    EXPECT_EQ(running.n_tokens(), 4 * 150);
  }
}

// One sequence is cut into spans of chunks where there are two threads, from position 512 on.
TEST_P(SteadyState, ALongSequenceTakesNoMemoryWhereItIsCutForTheThreads) {
  Running running({.n_threads = GetParam(), .n_seqs = 1, .n_generate = 800});
  EXPECT_EQ(running.news(44, 700), 0);
  EXPECT_EQ(running.n_tokens(), 700);
}

// Which experts rows want changes from step to step.
TEST_P(SteadyState, ExpertsTakeNoMemory) {
  Running running({.n_threads = GetParam(), .shape = {.n_experts = 16, .n_experts_used = 2}});
  EXPECT_EQ(running.news(44, 150), 0);
  EXPECT_EQ(running.n_tokens(), 4 * 150);
}

// Heads guess from what passes leave them, with as much memory in every step.
TEST_P(SteadyState, MedusaHeadsTakeNoMemory) {
  Running running({.n_threads = GetParam(), .n_generate = 1100, .heads = true});
  EXPECT_EQ(running.news(44, 150), 0);
  EXPECT_GT(running.n_tokens(), 4 * 150) << "some guesses are right";
}

// 24 rows a step: few enough to be cut for the threads once the past is long.
TEST_P(SteadyState, APromptTakesNoMemory) {
  for (const int n_experts : {0, 16}) {
    Running running({.n_threads = GetParam(),
                     .shape = {.n_experts = n_experts, .n_experts_used = 2},
                     .n_seqs = 1,
                     .n_prompt = 1500,
                     .step_tokens = 24});
    EXPECT_EQ(running.news(8, 50), 0) << n_experts << " experts";
    EXPECT_EQ(running.n_tokens(), 0);  // 58 steps of the 63 that the prompt takes
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, SteadyState, testing::Values(1, 2));

}  // namespace
}  // namespace quire
