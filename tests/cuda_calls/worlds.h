// What runs of the engine on the driver for tests have in common: the driver, models and caches in turn, requests, what
// each of them hears where nobody runs beside it, and waves of them.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "backend/cpu/cpu_ops.h"
#include "backend/cuda/backend.h"
#include "backend/cuda/driver/runtime_cuda.h"
#include "backend/cuda/emulated/fake_libcuda.h"
#include "backend/cuda/replays.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "io/test_folder.h"
#include "tests/support/heard_sink.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_model.h"

namespace quire {

inline constexpr int kRequests = 40, kVocab = 64;

inline SystemClock& the_clock() {
  static SystemClock one;
  return one;
}

// The driver for tests.
class TestDriver {
 public:
  TestDriver() : path_(cuda::fake_libcuda_path()), library_(::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    QR_CHECK(library_ != nullptr);
  }
  // seed: of the order in which streams go on.
  void reset(int seed = 0, int64_t bytes = cuda::FakeDriver().bytes) const {
    find<cuda::FakeReset>("quire_fake_reset")({.seed = static_cast<uint64_t>(seed), .bytes = bytes});
  }
  void limit(int64_t bytes) const { find<cuda::FakeLimit>("quire_fake_limit")(bytes); }
  int64_t used() const { return find<cuda::FakeBytes>("quire_fake_used")(); }
  void fail(int nth, int code) const { find<cuda::FakeFail>("quire_fake_fail")(nth, code); }
  int calls() const { return find<cuda::FakeCount>("quire_fake_calls")(); }
  int alive() const { return find<cuda::FakeCount>("quire_fake_alive")(); }
  Result<std::shared_ptr<cuda::Runtime>> open() const {
    return cuda::open_driver_runtime({.library = path_, .image = std::as_bytes(std::span(cuda::kFakeImage))});
  }

 private:
  template <class F>
  F find(const char* name) const {
    return reinterpret_cast<F>(::dlsym(library_, name));
  }
  std::string path_;
  void* library_;
};

// Of four beginnings one, longer than a block, and an end of its own.
inline Request request_of(int kind) {
  Rng rng(static_cast<uint64_t>(kind));
  Request out;
  for (int i = 0; i < 18 && kind % 3 != 0; ++i) out.prompt.push_back(static_cast<Token>((kind % 4) * 15 + i));
  const auto n_own = rng.between(1, 14);
  for (int i = 0; i < n_own; ++i) out.prompt.push_back(static_cast<Token>(rng.between(0, kVocab - 1)));
  out.max_tokens = static_cast<int>(rng.between(1, 5));
  out.sampling.temperature = kind % 2 == 0 ? 0.0F : 1.0F;
  out.sampling.seed = static_cast<uint64_t>(kind);
  if (kind % 4 == 1) out.sampling.n_logprobs = 2;
  if (kind % 10 == 3) out.sampling.n_prompt_logprobs = 1;
  if (kind % 10 == 7) {
    out.pool = Pool::mean;
    out.max_tokens = 1;
  }
  return out;
}

// Models and caches that worlds have in turn.
struct WorldKind {
  TinyShape shape;
  const char* codec;
  bool guesses, has_disk;
};
inline WorldKind world_kind(int number) {
  TinyShape shape{
      .n_layers = 2, .n_embd = 32, .n_ff = 32, .n_heads = 2, .n_kv_heads = 1, .n_vocab = kVocab, .n_ctx = 128};
  if (number % 2 == 1) shape.window = 24, shape.window_period = 2;
  return {shape, number % 4 < 2 ? "f16" : "q8", number % 3 == 2, number % 2 == 0};
}

// An engine with few blocks on some backend.
struct World {
  std::unique_ptr<TempFolder> folder;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
};
inline Result<World> make_world(Result<std::unique_ptr<Ops>> ops, const WorldKind& kind) {
  World out;
  QR_TRY(out.ops, std::move(ops));
  const TinyModel tiny(kind.shape, "q8_0", 3);
  QR_TRY(out.model, tiny.load(*out.ops, kind.codec));
  EngineOptions options;
  options.max_seqs = 4;
  options.step_tokens = 32;
  options.max_chunk = 16;
  options.n_ctx = 64;
  const KvLayout& layout = out.model->info().kv_layout;
  for (int g = 0; g < layout.n_groups(); ++g) options.kv_bytes += 7 * layout.block_bytes(g, options.block_tokens);
  if (kind.guesses) {
    options.proposer = "exit";
    options.exit_layers = 1;
    options.max_draft = 2;
  }
  if (kind.has_disk) {
    out.folder = std::make_unique<TempFolder>();
    options.kv_disk = out.folder->path();
    options.kv_disk_bytes = 64 << 20;
  }
  EngineEnv env;
  env.clock = &the_clock();
  QR_TRY(out.engine, make_engine(*out.model, *out.ops, options, env));
  return out;
}

inline Result<World> world_on(const TestDriver& driver, const WorldKind& kind) {
  QR_TRY(std::shared_ptr<cuda::Runtime> runtime, driver.open());
  return make_world(cuda::CudaOps::make(cuda::with_replays(std::move(runtime)), cpu_sample_kernels()), kind);
}

inline World world_on_cpu(int number) {
  return *make_world(make_cpu_ops(CpuOptions{.n_threads = 1, .isa = {}, .pin = false}), world_kind(number));
}

// What a request is told that nobody runs beside.
inline std::vector<int32_t> heard_alone(Engine& engine, Request request) {
  const auto sink = std::make_shared<HeardSink>();
  EXPECT_TRUE(engine.submit(std::move(request), sink));
  for (int n = 0; n < 100'000 && !sink->is_over(); ++n) {
    if (!engine.step()) std::this_thread::sleep_for(std::chrono::microseconds(200));  // a load is on its way
  }
  EXPECT_TRUE(sink->is_over());
  EXPECT_EQ(sink->error, "");
  return sink->heard;
}

// What each request is told on the CPU, where nobody runs beside it.
inline const std::vector<std::vector<int32_t>>& truth_of(int number) {
  static std::map<int, std::vector<std::vector<int32_t>>> known;
  auto& out = known[number % 12];
  if (!out.empty()) return out;
  const World world = world_on_cpu(number);
  for (int i = 0; i < kRequests; ++i) out.push_back(heard_alone(*world.engine, request_of(i)));
  return out;
}

// Which worlds a test goes through: QUIRE_CUDA_WORLDS=FIRST-END, or n from 0 on.
struct Worlds {
  int first = 0, end = 0;
  bool are_told = false;  // one by one
};
inline Worlds worlds(int n) {
  Worlds out{.end = n};
  const char* asked = std::getenv("QUIRE_CUDA_WORLDS");
  out.are_told = asked != nullptr;
  if (asked != nullptr && (std::sscanf(asked, "%d-%d", &out.first, &out.end) != 2 || out.first >= out.end)) {
    ADD_FAILURE() << "QUIRE_CUDA_WORLDS must be FIRST-END, is " << asked;
  }
  return out;
}

// Some requests that come in some steps.
class Wave {
 public:
  Wave(Rng& rng, Engine& engine) : engine_(engine) {
    const int n = static_cast<int>(rng.between(2, 3));
    for (int i = 0; i < n; ++i) {
      streams_.push_back(
          {.kind = static_cast<int>(rng.between(0, kRequests - 1)), .step = static_cast<int>(rng.between(0, 3))});
    }
  }
  void run() {
    for (int step = 0; step < 4 || !is_over(); ++step) {
      ASSERT_LT(step, 20'000) << "the loop does not end";
      for (Stream& stream : streams_) {
        if (stream.step != step) continue;
        EXPECT_TRUE(engine_.submit(request_of(stream.kind), stream.sink));
      }
      if (!engine_.step()) std::this_thread::sleep_for(std::chrono::microseconds(200));
      for (const Stream& stream : streams_) {
        if (!stream.sink->error.empty() && told_.insert(stream.sink.get()).second) failing_steps_.insert(step);
      }
    }
  }
  bool is_over() const {
    return std::ranges::all_of(streams_, [](const Stream& stream) { return stream.sink->is_over(); });
  }
  // Everybody heard what he hears alone, or the beginning of it and an error that `names` begins.
  void check(const std::vector<std::vector<int32_t>>& truth, std::string_view names) const {
    for (const Stream& stream : streams_) {
      const std::vector<int32_t>&got = stream.sink->heard, &all = truth[static_cast<size_t>(stream.kind)];
      if (stream.sink->error.empty()) {
        EXPECT_EQ(got, all) << stream.kind;
        continue;
      }
      EXPECT_EQ(stream.sink->finish, Finish::error);
      EXPECT_TRUE(stream.sink->error.starts_with(names)) << stream.sink->error;
      ASSERT_LE(got.size(), all.size());
      EXPECT_TRUE(std::equal(got.begin(), got.end(), all.begin())) << stream.kind;
    }
    EXPECT_EQ(engine_.snapshot().check(), "");
    EXPECT_EQ(engine_.stats().n_running, 0);
  }
  size_t n_failing_steps() const { return failing_steps_.size(); }
  size_t n_failed() const { return told_.size(); }
  size_t n_streams() const { return streams_.size(); }

 private:
  struct Stream {
    int kind, step;
    std::shared_ptr<HeardSink> sink = std::make_shared<HeardSink>();
  };
  Engine& engine_;
  std::vector<Stream> streams_;
  std::set<const HeardSink*> told_;
  std::set<int> failing_steps_;
};

}  // namespace quire
