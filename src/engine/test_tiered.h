// An engine over the tests' model with tiers below memory, stepped by hand.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "engine/test_model.h"

namespace quire {

struct TieredEngine {
  static constexpr int kCtx = 512;

  // `n_blocks` beside those of layers that see a window of `window` tokens, 0: there are none. open() makes the engine.
  TieredEngine(int n_blocks, int window) : model(kCtx, kStripTokens, window) {
    wanted.n_ctx = kCtx;
    wanted.max_seqs = 8;
    wanted.step_tokens = wanted.max_chunk = 64;
    wanted.block_tokens = TestEngine::kBlockTokens;
    if (window > 0) wanted.n_window_blocks = 64;
    const int64_t n_all = int64_t{n_blocks} + wanted.n_window_blocks;
    wanted.kv_bytes = n_all * wanted.block_tokens * int64_t{sizeof(TestModel::Cell)};
    model.on_pass = [this](const Batch&) { clock.advance_ns(pass_ns); };
  }
  void open(std::shared_ptr<Tier> tier) {
    EngineEnv env;
    env.clock = &clock;
    env.tiers = {std::move(tier)};
    auto made = make_engine(model, ops, wanted, env);
    QR_CHECK(made.has_value(), made ? "" : made.error().message);
    engine = std::move(*made);
  }
  std::shared_ptr<Heard> submit(Request request) const {
    auto sink = std::make_shared<Heard>();
    const auto id = engine->submit(std::move(request), sink);
    QR_CHECK(id.has_value(), id ? "" : id.error().message);
    return sink;
  }
  // Steps until it is done, with the clock going on by step_ns each.
  void run(const Heard& sink) {
    for (int64_t i = 0; !sink.done(); ++i) {
      step();
      ASSERT_LT(i, 60'000) << "it waits for something that does not come";
    }
  }
  // Where there was nothing to do a tier's threads get a moment.
  void step() {
    clock.advance_ns(step_ns);
    if (!engine->step()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    ASSERT_EQ(engine->snapshot().check(), "");
  }

  SystemClock system;  // for tiers with threads of their own
  ManualClock clock;
  int64_t step_ns = 50'000;  // slower than the system's, so that nothing is late on a busy machine
  int64_t pass_ns = 0;       // 0: what computing takes stays unknown
  TestOps ops;
  TestModel model;
  EngineOptions wanted;
  std::unique_ptr<Engine> engine;
};

inline Request request_of(uint64_t seed, int n_prompt, int n_tokens = 4) {
  Request out;
  out.prompt = random_tokens(seed, n_prompt);
  out.max_tokens = n_tokens;
  out.sampling.seed = seed;
  return out;
}

// Runs it and holds its answer to the one without engine, cache or tier.
inline std::shared_ptr<Heard> run_right(TieredEngine& t, const std::function<Request()>& request) {
  const auto heard = t.submit(request());
  t.run(*heard);
  EXPECT_EQ(heard->answer, alone(request(), TieredEngine::kCtx));
  return heard;
}

// Why no engine is made of these; "" where one is.
inline std::string error_of(EngineOptions wanted) {
  TestModel model(TieredEngine::kCtx);
  TestOps ops;
  ManualClock clock;
  wanted.n_ctx = TieredEngine::kCtx;
  wanted.kv_bytes = int64_t{64} * 16 * int64_t{sizeof(TestModel::Cell)};
  EngineEnv env;
  env.clock = &clock;
  const auto made = make_engine(model, ops, wanted, env);
  return made ? "" : made.error().message;
}

}  // namespace quire
