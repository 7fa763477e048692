// Same request, same bits on the emulated device: over 16 schedules of arrivals, ends, cancellations and few blocks,
// each with steps that overlap and without, launched as graphs and kernel by kernel. In half of them some requests have
// adapters, which come on another thread while steps run and go with their request. The truth is the CPU's, of tensor
// arithmetic its own, where nobody runs beside it.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <functional>
#include <future>

#include "backend/cpu/cpu_ops.h"
#include "backend/cuda/backend.h"
#include "backend/cuda/emulated/runtime_fake.h"
#include "backend/cuda/replays.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

constexpr int kSchedules = 16, kRequests = 7, kVocab = 64, kCtx = 64;

class BitSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    heard.push_back(event.id);
    heard.push_back(std::bit_cast<int32_t>(event.logprob));
  }
  void on_finish(SeqId, Finish how, const Usage&, const std::string& message) override {
    finish = how;
    error = message;
    ++n_ends;
  }
  std::vector<int32_t> heard;
  Finish finish = Finish::stop;
  std::string error;
  int n_ends = 0;
};

// Half of the schedules have greedy requests alone, of which some end with a token; in the others most draw, and of
// these most under filters.
Request request(int i, bool all_greedy) {
  Rng rng(static_cast<uint64_t>(i));
  Request out;
  for (int n = 3 + i * 5 % 23; n > 0; --n)
    out.prompt.push_back(static_cast<Token>(i % 3 == 0 ? n : rng.between(0, kVocab - 1)));
  out.max_tokens = 4 + i * 7 % 11;
  out.sampling.temperature = all_greedy || i % 4 > 1 ? 0.0F : 0.9F;
  if (i % 4 == 0) out.sampling.top_k = 20, out.sampling.top_p = 0.8F;
  if (i % 8 == 1) out.sampling.min_p = 0.05F;
  out.sampling.seed = static_cast<uint64_t>(i) * 31;
  if (i % 2 == 0) out.sampling.n_logprobs = 1;
  for (Token id = 0; i % 2 == 1 && id < 5; ++id) out.stop_ids.push_back(static_cast<Token>(i + 9 * id));
  return out;
}

// Of a schedule's request; 0: it has none.
uint64_t adapter_of(int i, int seed) { return seed / 2 % 2 == 1 ? static_cast<uint64_t>(i % 3) : 0; }

struct Kind {
  int window;
  const char* codec;
  const char* weights;
  int n_experts = 0;
};
constexpr std::array<Kind, 5> kKinds = {
    {{0, "f16", "q8_0"}, {24, "f16", "q4_0"}, {0, "q8", "q8_0"}, {24, "q4", "q8_0"}, {0, "f16", "q8_0", 4}}};

TinyModel tiny_model(const Kind& kind) {
  TinyShape shape{
      .n_layers = 2, .n_embd = 32, .n_ff = 32, .n_heads = 2, .n_kv_heads = 1, .n_vocab = kVocab, .n_ctx = 128};
  if (kind.window > 0) shape.window = kind.window, shape.window_period = 2;
  if (kind.n_experts > 0) shape.n_experts = kind.n_experts, shape.n_experts_used = 2;
  return TinyModel(shape, kind.weights, 3);
}

struct Totals {
  int64_t n_ahead = 0, n_dropped = 0, n_cancelled = 0;
};

using Truth = std::array<std::vector<int32_t>, kRequests>;

using Loading = std::function<Result<std::unique_ptr<Model>>(Ops& ops)>;

Loading loading_of(const TinyModel& tiny, const char* codec) {
  return [&tiny, codec](Ops& ops) { return tiny.load(ops, codec); };
}

// Everybody's stream is his own, or the beginning of it where he was cancelled.
struct Wanted {
  const Loading& load;
  int seed;
  bool overlaps;
  const Truth& truth;
};
void run(Ops& ops, const Wanted& wanted, Totals& totals) {
  const auto& [load, seed, overlaps, truth] = wanted;
  Rng rng(static_cast<uint64_t>(seed));
  const auto below = [&rng](int n) { return static_cast<int>(rng.between(0, n - 1)); };
  const auto model = load(ops);
  ASSERT_TRUE(model) << model.error().message;
  SystemClock clock;
  EngineOptions options;
  options.overlap = overlaps;
  options.recompute_share = 1;
  options.max_seqs = 3 + below(4);
  options.step_tokens = 8 + below(40);
  options.max_chunk = 4 + below(30);
  options.n_ctx = kCtx;
  options.prefix_cache = below(4) != 0;
  const KvLayout& layout = (*model)->info().kv_layout;
  const int n_blocks = 4 + below(2);
  for (int g = 0; g < layout.n_groups(); ++g)
    options.kv_bytes += n_blocks * layout.block_bytes(g, options.block_tokens);
  EngineEnv env;
  env.clock = &clock;
  const auto engine = make_engine(**model, ops, options, env);
  ASSERT_TRUE(engine) << engine.error().message;
  std::vector<std::shared_ptr<BitSink>> sinks;
  for (int i = 0; i < kRequests; ++i) {
    Request wanted_now = request(i, seed % 2 == 0);
    if (const uint64_t adapter = adapter_of(i, seed); adapter != 0) {
      auto loading = std::async(std::launch::async, [&] { return random_adapter(**model, ops, adapter); });
      (*engine)->step();
      wanted_now.adapter = *loading.get();
    }
    const auto id = (*engine)->submit(std::move(wanted_now), sinks.emplace_back(std::make_shared<BitSink>()));
    ASSERT_TRUE(id) << id.error().message;
    for (int steps = below(4); steps > 0; --steps) (*engine)->step();
    if (below(8) == 0) (*engine)->cancel(*id);
  }
  while ((*engine)->step()) ASSERT_EQ((*engine)->snapshot().check(), "");
  for (size_t i = 0; i < sinks.size(); ++i) {
    const BitSink& sink = *sinks[i];
    ASSERT_EQ(sink.n_ends, 1);
    ASSERT_EQ(sink.error, "");
    ASSERT_LE(sink.heard.size(), truth[i].size());
    ASSERT_TRUE(sink.finish == Finish::cancelled || sink.heard.size() == truth[i].size()) << "request " << i;
    ASSERT_TRUE(std::equal(sink.heard.begin(), sink.heard.end(), truth[i].begin())) << "request " << i;
  }
  const EngineStats stats = (*engine)->stats();
  EXPECT_TRUE(overlaps || stats.n_steps_ahead == 0);
  totals.n_ahead += stats.n_steps_ahead;
  totals.n_dropped += stats.n_dropped_rows;
  totals.n_cancelled += stats.n_cancelled;
}

Truth alone(Ops& ops, const Loading& load, int seed) {
  const auto model = load(ops);
  SystemClock clock;
  EngineOptions options;
  options.n_ctx = kCtx;
  options.max_seqs = 1;
  options.prefix_cache = false;
  EngineEnv env;
  env.clock = &clock;
  const auto engine = make_engine(**model, ops, options, env);
  Truth out;
  for (int i = 0; i < kRequests; ++i) {
    const auto sink = std::make_shared<BitSink>();
    Request wanted = request(i, seed % 2 == 0);
    if (const uint64_t adapter = adapter_of(i, seed); adapter != 0)
      wanted.adapter = *random_adapter(**model, ops, adapter);
    EXPECT_TRUE((*engine)->submit(std::move(wanted), sink));
    while ((*engine)->step()) {
    }
    EXPECT_EQ(sink->error, "");
    out[static_cast<size_t>(i)] = sink->heard;
  }
  return out;
}

std::unique_ptr<Ops> cpu_ops() { return *make_cpu_ops(CpuOptions{.n_threads = 1, .isa = {}, .pin = false}); }

std::unique_ptr<Ops> device_ops(int seed, bool as_graphs, CudaArithmetic arithmetic) {
  auto runtime = cuda::make_fake_runtime({.seed = static_cast<uint64_t>(seed)});
  if (as_graphs) runtime = cuda::with_replays(std::move(runtime));
  return *cuda::CudaOps::make(std::move(runtime), cpu_sample_kernels(), arithmetic);
}

// With overlap and without, as graphs and kernel by kernel.
void run_each_way(Wanted wanted, CudaArithmetic arithmetic, Totals& totals) {
  for (const bool overlaps : {false, true}) {
    for (const bool as_graphs : {false, true}) {
      SCOPED_TRACE("schedule " + std::to_string(wanted.seed) + (overlaps ? ", overlapping" : "") +
                   (as_graphs ? ", as graphs" : ""));
      wanted.overlaps = overlaps;
      run(*device_ops(wanted.seed, as_graphs, arithmetic), wanted, totals);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CudaOverlap, OneHashPerRequestWithAndWithoutIt) {
  Totals totals;
  int64_t n_ahead_of_greedy = 0;
  for (int seed = 0; seed < kSchedules; ++seed) {
    const Kind& kind = kKinds[static_cast<size_t>(seed) % kKinds.size()];
    const TinyModel tiny = tiny_model(kind);
    const Loading load = loading_of(tiny, kind.codec);
    const Truth truth = alone(*cpu_ops(), load, seed);
    const int64_t n_before = totals.n_ahead;
    run_each_way({load, seed, false, truth}, CudaArithmetic::portable, totals);
    if (seed % 2 == 0) n_ahead_of_greedy += totals.n_ahead - n_before;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(n_ahead_of_greedy, 4 * kSchedules);
  EXPECT_GT(totals.n_ahead - n_ahead_of_greedy, 4 * kSchedules);  // of requests that draw, most under filters
  EXPECT_GT(totals.n_dropped, kSchedules / 2);
  EXPECT_GT(totals.n_cancelled, kSchedules);
  std::printf("steps ahead: %ld, rows dropped: %ld, cancelled: %ld\n", static_cast<long>(totals.n_ahead),
              static_cast<long>(totals.n_dropped), static_cast<long>(totals.n_cancelled));
}

// Whole weights are BF16; the bits are not the CPU's.
TEST(CudaOverlap, TensorArithmeticHasOneHashPerRequestToo) {
  constexpr std::array<Kind, 2> kWide = {{{0, "bf16", "bf16"}, {24, "f16", "bf16"}}};
  Totals totals;
  for (int seed = 0; seed < 4; ++seed) {
    const Kind& kind = kWide[static_cast<size_t>(seed) / 2];
    const TinyModel tiny = tiny_model(kind);
    const Loading load = loading_of(tiny, kind.codec);
    const Truth truth = alone(*device_ops(0, false, CudaArithmetic::tensor), load, seed);
    EXPECT_NE(truth, alone(*cpu_ops(), load, seed));
    run_each_way({load, seed, false, truth}, CudaArithmetic::tensor, totals);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(totals.n_ahead, 16);
}

// Models whose layers keep a state, short convolutions among them.
TEST(CudaOverlap, WithStatesToo) {
  Totals totals;
  for (const std::string name : {"lfm2", "mamba2"}) {
    const auto file = open_model(kGoldenModels + name);
    ASSERT_TRUE(file) << file.error().message;
    const Loading load = [&](Ops& ops) {
      LoadOptions options;
      options.k_codec = options.v_codec = find_kv_codec("f16");
      options.weights = find_weight_format("q8_0");
      return load_model(*file, ops, options);
    };
    for (const int seed : {0, 1}) {
      SCOPED_TRACE(name + ", schedule " + std::to_string(seed));
      const Truth truth = alone(*cpu_ops(), load, seed);
      run(*device_ops(seed, true, CudaArithmetic::portable), {load, seed, true, truth}, totals);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(totals.n_ahead, 4);
}

// The same plans on the CPU, where each step is over when it was asked for.
TEST(CudaOverlap, OnTheCpuToo) {
  Totals totals;
  for (int seed = 0; seed < kSchedules; ++seed) {
    const Kind& kind = kKinds[static_cast<size_t>(seed) % kKinds.size()];
    const TinyModel tiny = tiny_model(kind);
    const auto ops = cpu_ops();
    const Loading load = loading_of(tiny, kind.codec);
    const Truth truth = alone(*ops, load, seed);
    run(*ops, {load, seed, true, truth}, totals);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(totals.n_ahead, 2 * kSchedules);
}

}  // namespace
}  // namespace quire
