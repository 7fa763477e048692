// Whole runs of the engine on a driver for tests of which calls fail: any of those that open a device, load a model,
// copy, launch, record, replay, wait and give back, where steps overlap too. Whoever was in the step ends with an error
// that names the call; everybody else hears every bit that he hears on the CPU, where nobody runs beside him; nothing
// is left of a device in the end. 10,000 seeds with QUIRE_TEST_ALL; QUIRE_CUDA_WORLDS=FIRST-END takes worlds of 25
// seeds from FIRST to before END and says behind each how far it is, so that a long run can go on where it ended.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <set>
#include <thread>

#include "backend/cpu/cpu_ops.h"
#include "backend/cuda/backend.h"
#include "backend/cuda/driver/runtime_cuda.h"
#include "backend/cuda/emulated/fake_libcuda.h"
#include "backend/cuda/replays.h"
#include "base/rng.h"
#include "base/sanitized.h"
#include "engine/engine.h"
#include "io/test_folder.h"
#include "ops/forwarding_ops.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

constexpr int kRequests = 40, kWorldSeeds = 25, kVocab = 64;
constexpr int kUnknownError = 999;

SystemClock& the_clock() {
  static SystemClock one;
  return one;
}

// The driver for tests.
class TestDriver {
 public:
  TestDriver() : path_(cuda::fake_libcuda_path()), library_(::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    QR_CHECK(library_ != nullptr);
  }
  void reset(int seed = 0) const { find<cuda::FakeReset>("quire_fake_reset")({.seed = static_cast<uint64_t>(seed)}); }
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

// Everything that is heard of an answer, as bits.
class BitSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    put(event.id);
    put(std::bit_cast<int32_t>(event.logprob));
    for (const TopLogprob& top : event.top) {
      put(top.id);
      put(std::bit_cast<int32_t>(top.logprob));
    }
  }
  void on_pooled(SeqId, std::span<const float> values) override {
    for (const float value : values) put(std::bit_cast<int32_t>(value));
  }
  void on_finish(SeqId, Finish how, const Usage&, const std::string& message) override {
    is_over = true;
    finish = how;
    error = message;
  }
  std::vector<int32_t> heard;
  bool is_over = false;
  Finish finish = Finish::stop;
  std::string error;

 private:
  void put(int32_t value) { heard.push_back(value); }
};

// Of four beginnings one, longer than a block, and an end of its own.
Request request_of(int kind) {
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
WorldKind world_kind(int number) {
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
Result<World> make_world(Result<std::unique_ptr<Ops>> ops, const WorldKind& kind) {
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

Result<World> world_on(const TestDriver& driver, const WorldKind& kind) {
  QR_TRY(std::shared_ptr<cuda::Runtime> runtime, driver.open());
  return make_world(cuda::CudaOps::make(cuda::with_replays(std::move(runtime)), cpu_sample_kernels()), kind);
}

// What each request is told on the CPU, where nobody runs beside it.
const std::vector<std::vector<int32_t>>& truth_of(int number) {
  static std::map<int, std::vector<std::vector<int32_t>>> known;
  auto& out = known[number % 12];
  if (!out.empty()) return out;
  const World world =
      *make_world(make_cpu_ops(CpuOptions{.n_threads = 1, .isa = {}, .pin = false}), world_kind(number));
  for (int i = 0; i < kRequests; ++i) {
    const auto sink = std::make_shared<BitSink>();
    EXPECT_TRUE(world.engine->submit(request_of(i), sink));
    while (world.engine->step()) {
    }
    EXPECT_EQ(sink->error, "");
    out.push_back(sink->heard);
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
    return std::ranges::all_of(streams_, [](const Stream& stream) { return stream.sink->is_over; });
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
    std::shared_ptr<BitSink> sink = std::make_shared<BitSink>();
  };
  Engine& engine_;
  std::vector<Stream> streams_;
  std::set<const BitSink*> told_;
  std::set<int> failing_steps_;
};

int n_seeds() {
  if (kSanitized) return 50;
  return std::getenv("QUIRE_TEST_ALL") != nullptr ? 10'000 : 125;
}

struct Worlds {
  int first = 0, end = (n_seeds() + kWorldSeeds - 1) / kWorldSeeds;
  bool are_told = false;  // one by one
  int n() const { return (end - first) * kWorldSeeds; }
};
Worlds worlds() {
  Worlds out;
  const char* asked = std::getenv("QUIRE_CUDA_WORLDS");
  out.are_told = asked != nullptr;
  if (asked != nullptr && (std::sscanf(asked, "%d-%d", &out.first, &out.end) != 2 || out.first >= out.end)) {
    ADD_FAILURE() << "QUIRE_CUDA_WORLDS must be FIRST-END, is " << asked;
  }
  return out;
}

struct Seen {
  int n_hit = 0, n_failed = 0, n_all = 0, n_without_harm = 0, n_not_opened = 0;
  int64_t n_ahead = 0, n_loaded = 0;
};

// One world after the other, of which every fourth is opened while a call fails.
void run_world(const TestDriver& driver, int number, int n_waves, Seen& seen) {
  Rng rng(static_cast<uint64_t>(number) + 1000);
  driver.reset(number);
  if (number % 4 == 3) driver.fail(static_cast<int>(rng.between(1, 400)), kUnknownError);
  const auto world = world_on(driver, world_kind(number));
  driver.fail(0, 0);
  if (!world) {
    EXPECT_NE(world.error().message.find(": an unknown error (999)"), std::string::npos) << world.error().message;
    ++seen.n_not_opened;
    return;
  }
  for (int i = 0; i < n_waves; ++i) {
    Wave wave(rng, *world->engine);
    const int nth = static_cast<int>(rng.between(1, rng.between(0, 1) == 0 ? 40 : 250)), before = driver.calls();
    driver.fail(nth, rng.between(0, 1) == 0 ? kUnknownError : 2);
    wave.run();
    const bool was_hit = driver.calls() - before >= nth;
    driver.fail(0, 0);
    wave.check(truth_of(number), "the step failed: cu");
    EXPECT_LE(wave.n_failing_steps(), was_hit ? 1U : 0U);
    seen.n_hit += was_hit ? 1 : 0;
    seen.n_without_harm += was_hit && wave.n_failed() == 0 ? 1 : 0;
    seen.n_failed += static_cast<int>(wave.n_failed());
    seen.n_all += static_cast<int>(wave.n_streams());
  }
  const EngineStats stats = world->engine->stats();
  seen.n_ahead += stats.n_steps_ahead;
  seen.n_loaded += stats.n_loaded_tokens;
}

TEST(CudaCalls, WhereOneFailsItsStepEndsAndAllElseIsAsWithout) {
  const TestDriver driver;
  Seen seen;
  const Worlds all = worlds();
  for (int number = all.first; number < all.end; ++number) {
    run_world(driver, number, kWorldSeeds, seen);
    ASSERT_EQ(driver.alive(), 0) << "of world " << number;
    ASSERT_FALSE(HasFailure()) << "in world " << number;
    if (all.are_told) std::fprintf(stderr, "world %d is done\n", number);
  }
  if (all.n() >= 50) {  // fewer seeds need not meet each of these
    EXPECT_GT(seen.n_hit, all.n() / 3);
    EXPECT_GT(seen.n_failed, seen.n_hit / 2);
    EXPECT_GT(seen.n_without_harm, 0);
    EXPECT_GT(seen.n_ahead, all.n() / 2);
    EXPECT_TRUE(all.n() < 100 || seen.n_not_opened > 0);
    EXPECT_TRUE(all.n() < 500 || seen.n_loaded > 0);
  }
  std::printf(
      "calls that failed: %d, requests that ended so: %d of %d, without harm: %d, worlds not opened: %d, tokens "
      "loaded: %ld\n",
      seen.n_hit, seen.n_failed, seen.n_all, seen.n_without_harm, seen.n_not_opened, static_cast<long>(seen.n_loaded));
}

// The host does not reach them by itself. A copy of which a call fails says so, and the next one is done.
TEST(CudaCalls, BytesOfBlocksGoByTheDevice) {
  const TestDriver driver;
  driver.reset();
  {
    const auto ops = *cuda::CudaOps::make(*driver.open(), cpu_sample_kernels());
    const Buffer memory = *ops->allocate_blocks(3 * 256);
    const KvGroupView blocks{memory.data(), 256, 16, memory.copier()};
    const KvView view{.groups = {blocks}, .n_groups = 1};
    std::vector<std::byte> bytes(256), back(256);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    const auto done = [&](int nth) {
      driver.fail(nth, kUnknownError);
      std::ranges::fill(back, std::byte{0});
      const auto is_done = [&](int64_t copy) { return view.state(copy, true) == CopyState::done; };
      view.begin_writes();
      const bool all =
          is_done(blocks.write(2, bytes.data())) && blocks.copy(0, 2) && is_done(blocks.read(back.data(), 0));
      driver.fail(0, 0);
      EXPECT_TRUE(!all || back == bytes);
      return all;
    };
    for (int i = 0; i < cuda::kCopyMarks; ++i) EXPECT_TRUE(done(0));  // each takes its pinned memory once
    const int before = driver.calls();
    EXPECT_TRUE(done(0));
    const int n = driver.calls() - before;
    ASSERT_GE(n, 6);
    for (int nth = 1; nth <= n; ++nth) {
      EXPECT_FALSE(done(nth)) << nth;
      EXPECT_TRUE(done(0)) << nth;
    }
    EXPECT_DEATH(static_cast<void>(*static_cast<volatile std::byte*>(blocks.block(1))), "");
  }
  EXPECT_EQ(driver.alive(), 0);
}

// In the middle of a step, when some of it has been asked of the device.
class ThrowingOps final : public WrappedOps {
 public:
  ThrowingOps(std::unique_ptr<Ops> ops, int& left) : WrappedOps(std::move(ops)), left_(left) {}
  void gated(Tensor y, Tensor gate, Tensor up, Activation act) override {
    if (left_ > 0 && --left_ == 0) throw std::bad_alloc();
    WrappedOps::gated(y, gate, up, act);
  }

 private:
  int& left_;
};

TEST(CudaCalls, AStepThatThrowsLeavesNothingOnTheDevice) {
  const TestDriver driver;
  int n_thrown = 0;
  for (const int number : {0, 2}) {  // 2: guesses, which may be what throws
    driver.reset();
    int left = 0;
    const World world = *[&]() -> Result<World> {
      QR_TRY(std::shared_ptr<cuda::Runtime> runtime, driver.open());
      QR_TRY(std::unique_ptr<Ops> ops,
             cuda::CudaOps::make(cuda::with_replays(std::move(runtime)), cpu_sample_kernels()));
      return make_world(std::make_unique<ThrowingOps>(std::move(ops), left), world_kind(number));
    }();
    Rng rng(7);
    for (int i = 0; i < 12; ++i) {
      Wave wave(rng, *world.engine);
      left = 1 + i % 6;
      wave.run();
      wave.check(truth_of(number), "out of memory");
      n_thrown += left == 0 ? 1 : 0;
      EXPECT_LE(wave.n_failing_steps(), 1U);
    }
  }
  EXPECT_GT(n_thrown, 18);
  EXPECT_EQ(driver.alive(), 0);
}

}  // namespace
}  // namespace quire
