// Once a batch runs, a step takes no memory from the heap: neither plan, batch, commit nor emit, nor a table that
// grows, nor a block that becomes findable. Counted by an operator new of this program's own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "engine/engine.h"
#include "engine/test_model.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QR_COUNTS_NEWS 0  // the sanitizer's own operators stay: they check what every test here allocates
#else
#define QR_COUNTS_NEWS 1
#endif

namespace {
thread_local int64_t n_news = 0;

#if QR_COUNTS_NEWS
void* counted(std::size_t bytes, std::size_t align) {
  ++n_news;
  void* out = align <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes)
                                                 : std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (out == nullptr) std::abort();
  return out;
}
#endif
}  // namespace

#if QR_COUNTS_NEWS
void* operator new(std::size_t bytes) { return counted(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t align) {
  return counted(bytes, static_cast<std::size_t>(align));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
#endif

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

}  // namespace
}  // namespace quire
