// Whole runs of the engine on a driver for tests of which calls fail: any of those that open a device, load a model,
// copy, launch, record, replay, wait and give back, where steps overlap too. Whoever was in the step ends with an error
// that names the call; everybody else hears every bit that he hears on the CPU, where nobody runs beside him; nothing
// is left of a device in the end. 10,000 seeds with QUIRE_TEST_ALL; QUIRE_CUDA_WORLDS=FIRST-END takes worlds of 25
// seeds from FIRST to before END and says behind each how far it is, so that a long run can go on where it ended.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/sanitized.h"
#include "ops/forwarding_ops.h"
#include "tests/cuda_calls/worlds.h"

namespace quire {
namespace {

constexpr int kWorldSeeds = 25, kUnknownError = 999;

int n_seeds() {
  if (kSanitized) return 50;
  return std::getenv("QUIRE_TEST_ALL") != nullptr ? 10'000 : 125;
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
  const Worlds all = worlds((n_seeds() + kWorldSeeds - 1) / kWorldSeeds);
  for (int number = all.first; number < all.end; ++number) {
    run_world(driver, number, kWorldSeeds, seen);
    ASSERT_EQ(driver.alive(), 0) << "of world " << number;
    ASSERT_FALSE(HasFailure()) << "in world " << number;
    if (all.are_told) std::fprintf(stderr, "world %d is done\n", number);
  }
  const int n = (all.end - all.first) * kWorldSeeds;
  if (n >= 50) {  // fewer seeds need not meet each of these
    EXPECT_GT(seen.n_hit, n / 3);
    EXPECT_GT(seen.n_failed, seen.n_hit / 2);
    EXPECT_GT(seen.n_without_harm, 0);
    EXPECT_GT(seen.n_ahead, n / 2);
    EXPECT_TRUE(n < 100 || seen.n_not_opened > 0);
    EXPECT_TRUE(n < 500 || seen.n_loaded > 0);
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
    EXPECT_TRUE(done(0));  // rings take their pinned memory once
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
    const bool counts = left_ > 0;
    if (counts) --left_;
    if (counts && left_ == 0) throw std::bad_alloc();
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
