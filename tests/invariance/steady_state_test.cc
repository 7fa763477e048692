// Decoding with the CPU backend takes no memory from the heap: norms, products, attention and sampling work in what the
// first steps left. Counted by an operator new of this program's own, on all threads.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_ops.h"
#include "base/count_news.h"
#include "engine/engine.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

class CountingSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent&) override { ++n_tokens; }
  void on_finish(SeqId, Finish, const Usage&, const std::string&) override {}
  int n_tokens = 0;
};

// From position 300 on, so that attention cuts the keys of a row into chunks, and up to 500, within the second chunk.
TEST(SteadyState, DecodingTakesNoMemory) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  for (const int n_threads : {1, 2}) {
    for (const float temperature : {0.0F, 0.9F}) {
      const auto ops = make_cpu_ops(CpuOptions{.n_threads = n_threads, .isa = "", .pin = false});
      ASSERT_TRUE(ops);
      const TinyModel tiny({}, "q4_0", 7);
      const auto model = tiny.load(**ops, "f16");
      ASSERT_TRUE(model);
      SystemClock clock;
      EngineOptions options;
      options.max_seqs = 4;
      options.n_ctx = 600;
      options.prefix_cache = false;
      options.kv_bytes = int64_t{4} * 640 * (*model)->info().kv_layout.token_bytes();
      EngineEnv env;
      env.clock = &clock;
      const auto engine = make_engine(**model, **ops, options, env);
      ASSERT_TRUE(engine);
      const auto sink = std::make_shared<CountingSink>();
      for (int s = 0; s < 4; ++s) {
        Request request;
        for (int t = 0; t < 300; ++t) request.prompt.push_back((t * 7 + s) % 105);
        request.max_tokens = 250;
        request.sampling.temperature = temperature;
        request.sampling.top_k = temperature > 0 ? 20 : 0;
        request.sampling.top_p = temperature > 0 ? 0.9F : 1.0F;
        request.sampling.seed = 1;
        ASSERT_TRUE((*engine)->submit(std::move(request), sink));
      }
      while (sink->n_tokens < 4 * 40) (*engine)->step();
      const int n_tokens = sink->n_tokens;
      const int64_t before = n_news;
      for (int i = 0; i < 150; ++i) (*engine)->step();
      EXPECT_EQ(n_news - before, 0) << n_threads << " threads, temperature " << temperature;
      EXPECT_EQ(sink->n_tokens - n_tokens, 4 * 150);
    }
  }
}

}  // namespace
}  // namespace quire
