// Same request, same bits on the emulated device with a tier on disk and swaps: blocks are copied beside steps, which
// overlap or do not, launched as graphs and kernel by kernel, streams in orders by seed. The truth is the CPU's, where
// nobody runs beside it and nothing is found.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "backend/cpu/cpu_ops.h"
#include "backend/cuda/backend.h"
#include "backend/cuda/emulated/runtime_fake.h"
#include "backend/cuda/replays.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "io/test_folder.h"
#include "tests/support/bits_sink.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

constexpr int kVocab = 64, kCtx = 112, kKinds = 10, kRequests = 8;

// Of five beginnings of two blocks one, an end of its own, and a long answer.
Request request(int kind) {
  Rng rng(static_cast<uint64_t>(kind));
  Request out;
  for (int i = 0; i < 40; ++i) out.prompt.push_back(static_cast<Token>((kind % 5 * 11 + i * 3) % kVocab));
  for (int i = 0; i < 1 + kind; ++i) out.prompt.push_back(static_cast<Token>(rng.between(0, kVocab - 1)));
  out.max_tokens = 12 + kind;
  out.sampling.temperature = kind % 3 == 0 ? 0.8F : 0.0F;
  out.sampling.seed = static_cast<uint64_t>(kind);
  return out;
}

TinyModel tiny_model(bool has_window) {
  TinyShape shape{
      .n_layers = 2, .n_embd = 32, .n_ff = 32, .n_heads = 2, .n_kv_heads = 1, .n_vocab = kVocab, .n_ctx = 128};
  if (has_window) shape.window = 24, shape.window_period = 2;
  return TinyModel(shape, "q8_0", 3);
}

using Loading = std::function<Result<std::unique_ptr<Model>>(Ops& ops)>;

Loading loading_of(const TinyModel& tiny) {
  return [&tiny](Ops& ops) { return tiny.load(ops, "f16"); };
}

using Truth = std::array<std::vector<uint32_t>, kKinds>;

struct Totals {
  int64_t n_ahead = 0, n_loaded = 0, n_swapped = 0, n_evicted = 0, n_cancelled = 0;
  int64_t n_loaded_beside = 0;  // where steps overlap
};

std::unique_ptr<Engine> engine_of(const Model& model, Ops& ops, EngineOptions options, SystemClock& clock) {
  options.n_ctx = kCtx;
  EngineEnv env;
  env.clock = &clock;
  auto made = make_engine(model, ops, options, env);
  QR_CHECK(made.has_value(), made ? "" : made.error().message);
  return std::move(*made);
}

Truth truth_of(const Loading& load) {
  const auto ops = *make_cpu_ops(CpuOptions{.n_threads = 1, .isa = {}, .pin = false});
  const auto model = *load(*ops);
  SystemClock clock;
  EngineOptions options;
  options.prefix_cache = false;
  const auto engine = engine_of(*model, *ops, options, clock);
  Truth out;
  for (int kind = 0; kind < kKinds; ++kind) {
    const auto sink = std::make_shared<BitsSink>();
    EXPECT_TRUE(engine->submit(request(kind), sink));
    while (engine->step()) {
    }
    out[static_cast<size_t>(kind)] = sink->bits;
  }
  return out;
}

// With a disk two lives of an engine over one folder: what the first one stored the second one finds. Without, nothing
// is found, and what is sent back is swapped. Few blocks, so that what leaves memory comes back.
struct Way {
  int seed;
  bool has_disk, overlaps, as_graphs;
};
void run(const Loading& load, const Truth& truth, const Way& way, Totals& totals) {
  const TempFolder folder;
  Rng rng(static_cast<uint64_t>(way.seed));
  for (int life = 0; life < (way.has_disk ? 2 : 1); ++life) {
    auto runtime = cuda::make_fake_runtime({.seed = static_cast<uint64_t>(way.seed * 2 + life)});
    if (way.as_graphs) runtime = cuda::with_replays(std::move(runtime));
    const auto ops = *cuda::CudaOps::make(std::move(runtime), cpu_sample_kernels());
    const auto model = *load(*ops);
    SystemClock clock;
    EngineOptions options;
    options.overlap = way.overlaps;
    options.max_seqs = 4;
    options.step_tokens = 48;
    options.recompute_share = 1;
    options.prefix_cache = way.has_disk;
    if (way.has_disk) options.kv_disk = folder.path();
    options.kv_disk_bytes = 64 << 20;
    options.swap_bytes = 1 << 20;
    const KvLayout& layout = model->info().kv_layout;
    const int n_blocks = way.has_disk ? 9 : 7;
    for (int g = 0; g < layout.n_groups(); ++g)
      options.kv_bytes += n_blocks * layout.block_bytes(g, options.block_tokens);
    const auto engine = engine_of(*model, *ops, options, clock);
    std::vector<std::pair<int, std::shared_ptr<BitsSink>>> sinks;
    const auto step = [&] {
      if (!engine->step()) std::this_thread::sleep_for(std::chrono::microseconds(200));
      ASSERT_EQ(engine->snapshot().check(), "");
    };
    for (int i = 0; i < kRequests; ++i) {
      const auto kind = static_cast<int>(rng.between(0, kKinds - 1));
      sinks.emplace_back(kind, std::make_shared<BitsSink>());
      const auto id = engine->submit(request(kind), sinks.back().second);
      ASSERT_TRUE(id);
      for (int64_t n = rng.between(0, 12); n > 0; --n) step();
      if (rng.between(0, 7) == 0) engine->cancel(*id);
    }
    for (int n = 0; !std::ranges::all_of(sinks, [](const auto& s) { return s.second->ended; }); ++n) {
      ASSERT_LT(n, 20'000);
      step();
    }
    for (const auto& [kind, sink] : sinks) {
      ASSERT_EQ(sink->error, "");
      const std::vector<uint32_t>& whole = truth[static_cast<size_t>(kind)];
      const bool is_cut = sink->finish == Finish::cancelled && sink->bits.size() < whole.size();
      const std::vector<uint32_t> wanted(whole.begin(), is_cut ? whole.begin() + std::ssize(sink->bits) : whole.end());
      ASSERT_EQ(sink->bits, wanted) << "request " << kind << ", life " << life;
      totals.n_cancelled += is_cut ? 1 : 0;
    }
    const EngineStats stats = engine->stats();
    totals.n_ahead += stats.n_steps_ahead;
    totals.n_loaded += stats.n_loaded_tokens;
    totals.n_swapped += stats.n_swaps_in;
    totals.n_evicted += stats.n_preempted;
  }
}

TEST(CudaTiers, OneHashPerRequestHoweverBlocksCome) {
  Totals all;
  for (int seed = 0; seed < 6; ++seed) {
    const TinyModel tiny = tiny_model(seed % 3 > 0);
    const Loading load = loading_of(tiny);
    const Truth truth = truth_of(load);
    for (const bool overlaps : {false, true}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + (overlaps ? ", overlapping" : ""));
      Totals totals;
      run(load, truth, {seed, seed % 3 < 2, overlaps, seed >= 3}, totals);
      if (HasFatalFailure()) return;
      EXPECT_EQ(totals.n_ahead > 0, overlaps);
      all.n_ahead += totals.n_ahead;
      all.n_loaded += totals.n_loaded;
      all.n_loaded_beside += overlaps ? totals.n_loaded : 0;
      all.n_cancelled += totals.n_cancelled;
      all.n_swapped += totals.n_swapped;
      all.n_evicted += totals.n_evicted;
    }
  }
  EXPECT_GT(all.n_ahead, 100);
  EXPECT_GT(all.n_loaded, 100);
  EXPECT_GT(all.n_loaded_beside, 100);
  EXPECT_GT(all.n_cancelled, 2);
  EXPECT_GT(all.n_swapped, 0);
  std::printf("steps ahead: %ld, tokens loaded: %ld, swaps: %ld, sent back: %ld\n", static_cast<long>(all.n_ahead),
              static_cast<long>(all.n_loaded), static_cast<long>(all.n_swapped), static_cast<long>(all.n_evicted));
}

// States are swapped too.
TEST(CudaTiers, WithStatesToo) {
  const auto file = open_model(kGoldenModels + std::string("lfm2"));
  ASSERT_TRUE(file) << file.error().message;
  const Loading load = [&](Ops& ops) {
    LoadOptions options;
    options.k_codec = options.v_codec = find_kv_codec("f16");
    options.weights = find_weight_format("q8_0");
    return load_model(*file, ops, options);
  };
  Totals totals;
  run(load, truth_of(load), {.seed = 1, .has_disk = false, .overlaps = true, .as_graphs = true}, totals);
  EXPECT_GT(totals.n_ahead, 0);
  EXPECT_GT(totals.n_swapped, 0);
}

}  // namespace
}  // namespace quire
