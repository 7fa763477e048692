// What the engine asks of a device in a step of decoding: one copy of tables, one launch of what was recorded, logits
// back, one wait, no memory; and that memory may end at any allocation.
#include <gtest/gtest.h>

#include "app/wire.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/cuda/backend.h"
#include "backend/cuda/emulated/counting_runtime.h"
#include "backend/cuda/replays.h"
#include "engine/engine.h"
#include "model/lora.h"
#include "tests/support/answer_sink.h"
#include "tests/support/golden_models.h"

namespace quire {
namespace {

// Tokens of a few answers, and what the last steps of all together asked for.
struct Seen {
  std::vector<std::vector<Token>> tokens;
  cuda::RuntimeCalls last;
  int n_steps = 0;
};
Result<Seen> answers_on(Ops& ops, const cuda::RuntimeCalls& calls, int n_tokens, bool has_adapter = false) {
  constexpr int kLast = 8;
  Seen out;
  const ModelOptions wanted{.model = golden_path("llama"), .threads = 1, .weights = "q8_0"};
  QR_TRY(const ModelFile file, open_model(wanted.model));
  QR_TRY(const LoadOptions how, load_options(wanted, &file));
  QR_TRY(const std::unique_ptr<Model> model, load_model(file, ops, how));
  std::shared_ptr<const Adapter> adapter;
  if (has_adapter) {
    QR_TRY(adapter, load_lora("tests/golden/adapters/llama_all", *model, ops, {wanted.model, how.weights}, 1 << 28));
  }
  SystemClock clock;
  EngineOptions options;
  options.n_ctx = 128;
  EngineEnv env;
  env.clock = &clock;
  QR_TRY(const std::unique_ptr<Engine> engine, make_engine(*model, ops, options, env));
  std::vector<std::shared_ptr<AnswerSink>> sinks;
  constexpr size_t kStreams = 3;
  const auto n_most = static_cast<size_t>(n_tokens);
  for (size_t i = 0; i < kStreams; ++i) {
    Request request;
    for (size_t t = 0; t < 4 + i; ++t) request.prompt.push_back(static_cast<Token>(7 * t + i + 1));
    request.max_tokens = n_tokens;
    if (i > 0) request.adapter = adapter;
    EXPECT_TRUE(engine->submit(std::move(request), sinks.emplace_back(std::make_shared<AnswerSink>())));
  }
  cuda::RuntimeCalls before;
  while (true) {
    const bool is_late = sinks[0]->tokens.size() + kLast >= n_most && sinks[0]->tokens.size() + 1 < n_most;
    if (is_late && out.n_steps == 0) before = calls;
    if (!engine->step()) break;
    if (is_late) {
      ++out.n_steps;
      out.last = calls;
    }
  }
  out.last.n_allocations -= before.n_allocations;
  out.last.n_uploads -= before.n_uploads;
  out.last.n_downloads -= before.n_downloads;
  out.last.n_launches -= before.n_launches;
  out.last.n_recorded -= before.n_recorded;
  out.last.n_replays -= before.n_replays;
  out.last.n_waits -= before.n_waits;
  for (const auto& sink : sinks) {
    if (!sink->error.empty()) return fail(Code::exhausted, sink->error);
    out.tokens.push_back(sink->tokens);
  }
  return out;
}

TEST(CudaSteps, ADecodeStepIsOneLaunchOneCopyUpAndOneWait) {
  cuda::RuntimeCalls single, replayed;
  const auto by_launches = cuda::CudaOps::make(std::make_shared<cuda::CountingRuntime>(single), cpu_sample_kernels());
  const auto by_replays =
      cuda::CudaOps::make(cuda::with_replays(std::make_shared<cuda::CountingRuntime>(replayed)), cpu_sample_kernels());
  const Seen truth = *answers_on(**by_launches, single, 40), got = *answers_on(**by_replays, replayed, 40);
  EXPECT_EQ(got.tokens, truth.tokens);
  EXPECT_GT(truth.last.n_launches, 10 * truth.n_steps);
  EXPECT_GT(got.n_steps, 4);
  EXPECT_EQ(got.last.n_replays, got.n_steps);
  EXPECT_EQ(got.last.n_uploads, got.n_steps);
  EXPECT_EQ(got.last.n_waits, got.n_steps);
  EXPECT_EQ(got.last.n_launches, 0);
  EXPECT_EQ(got.last.n_recorded, 0);
  EXPECT_EQ(got.last.n_allocations, 0);
  EXPECT_EQ(got.last.n_downloads, 2 * got.n_steps);  // logits, and what was picked
}

TEST(CudaSteps, ADecodeStepWithAnAdapterIsOneLaunchToo) {
  cuda::RuntimeCalls replayed;
  const auto ops =
      cuda::CudaOps::make(cuda::with_replays(std::make_shared<cuda::CountingRuntime>(replayed)), cpu_sample_kernels());
  const Seen got = *answers_on(**ops, replayed, 40, true);
  EXPECT_NE(got.tokens, answers_on(**ops, replayed, 40)->tokens);
  EXPECT_GT(got.n_steps, 4);
  EXPECT_EQ(got.last.n_replays, got.n_steps);
  EXPECT_EQ(got.last.n_launches, 0);
  EXPECT_EQ(got.last.n_recorded, 0);
}

// A failure is an error of who asked, and nothing of it stays; what a step can do without is done without.
TEST(CudaSteps, MemoryMayEndAtAnyAllocation) {
  std::vector<std::vector<Token>> truth;
  int n_refused = 0, n_done_without = 0, n_allocations = 0;
  for (int nth = 0; nth <= n_allocations; ++nth) {
    cuda::RuntimeCalls calls{.failing_allocation = nth};
    {
      const auto ops =
          cuda::CudaOps::make(cuda::with_replays(std::make_shared<cuda::CountingRuntime>(calls)), cpu_sample_kernels());
      const Result<Seen> seen = ops ? answers_on(**ops, calls, 3) : tl::make_unexpected(ops.error());
      if (nth == 0) {
        ASSERT_TRUE(seen) << seen.error().message;
        truth = seen->tokens;
        n_allocations = calls.n_allocations;
      } else if (seen) {
        EXPECT_EQ(seen->tokens, truth) << nth;
        ++n_done_without;
      } else {
        EXPECT_EQ(seen.error().code, Code::exhausted) << nth << ' ' << seen.error().message;
        ++n_refused;
      }
    }
    EXPECT_EQ(calls.n_alive, 0) << nth;
  }
  EXPECT_GT(n_refused, 20);
  EXPECT_GT(n_done_without, 1);
}

}  // namespace
}  // namespace quire
