// Whole runs of the engine on a driver for tests whose memory ends at a byte that a seed chooses: while a model is
// loaded and the cache is taken, and in each wave of requests a little behind what is taken then, while steps run, are
// recorded as graphs, and adapters are loaded beside them. A world that cannot begin says what it lacked, an adapter is
// refused; everybody hears every bit that he hears on the CPU, and nothing is left of a device in the end. 3,000 worlds
// with QUIRE_TEST_ALL; QUIRE_CUDA_WORLDS as in cuda_calls_test.cc.
#include <future>

#include "base/sanitized.h"
#include "tests/cuda_calls/worlds.h"

namespace quire {
namespace {

constexpr int kWaves = 5, kAdapters = 2;
constexpr int64_t kMostLeft = 192 << 10;  // of bytes, in a wave

int n_worlds() {
  if (kSanitized) return 8;
  return std::getenv("QUIRE_TEST_ALL") != nullptr ? 3000 : 18;
}

// Bytes that a world takes before its first step.
int64_t needed_by(const TestDriver& driver, int number) {
  static std::map<int, int64_t> known;
  int64_t& out = known[number % 12];
  if (out == 0) {
    driver.reset();
    const auto world = world_on(driver, world_kind(number));
    out = driver.used();
  }
  return out;
}

// What a request with an adapter is told on the CPU, where nobody runs beside it.
const std::vector<int32_t>& adapted_truth(int number, int kind, uint64_t adapter) {
  static std::map<std::tuple<int, int, uint64_t>, std::vector<int32_t>> known;
  auto& out = known[{number % 12, kind, adapter}];
  if (out.empty()) {
    const World world = world_on_cpu(number);
    Request request = request_of(kind);
    request.adapter = *random_adapter(*world.model, *world.ops, adapter);
    out = heard_alone(*world.engine, std::move(request));
  }
  return out;
}

struct Seen {
  int n_not_opened = 0, n_refused = 0, n_loaded = 0;
  int64_t n_ahead = 0;
};

// Waves of requests, an adapter on its way beside each.
void run_waves(const TestDriver& driver, World& world, int number, Rng& rng, Seen& seen) {
  for (int i = 0; i < kWaves; ++i) {
    driver.limit(driver.used() + (rng.between(0, 3) == 0 ? 0 : rng.between(0, kMostLeft)));
    const auto adapter = static_cast<uint64_t>(rng.between(1, kAdapters));
    auto loading = std::async(std::launch::async, [&] { return random_adapter(*world.model, *world.ops, adapter); });
    Wave wave(rng, *world.engine);
    wave.run();
    wave.check(truth_of(number), "nobody fails for a lack of memory");
    EXPECT_EQ(wave.n_failed(), 0U);
    while (loading.wait_for(std::chrono::seconds(0)) != std::future_status::ready) world.engine->step();
    auto loaded = loading.get();
    if (!loaded) {
      EXPECT_EQ(loaded.error().code, Code::exhausted) << loaded.error().message;
      EXPECT_NE(loaded.error().message.find("cannot allocate"), std::string::npos) << loaded.error().message;
      ++seen.n_refused;
      continue;
    }
    const int kind = static_cast<int>(rng.between(0, 5));
    Request request = request_of(kind);
    request.adapter = std::move(*loaded);
    EXPECT_EQ(heard_alone(*world.engine, std::move(request)), adapted_truth(number, kind, adapter));
    ++seen.n_loaded;
  }
  seen.n_ahead += world.engine->stats().n_steps_ahead;
}

// Every third world has too little from the start.
void run_world(const TestDriver& driver, int number, Seen& seen) {
  Rng rng(static_cast<uint64_t>(number) + 5000);
  const int64_t needed = needed_by(driver, number), least = rng.between(0, 3) == 0 ? 0 : cuda::kWorkspaceBytes;
  driver.reset(number, number % 3 == 0 ? rng.between(least, needed - 1) : needed + rng.between(0, kMostLeft));
  auto world = world_on(driver, world_kind(number));
  if (world) return run_waves(driver, *world, number, rng, seen);
  EXPECT_EQ(world.error().code, Code::exhausted) << world.error().message;
  EXPECT_NE(world.error().message.find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << world.error().message;
  ++seen.n_not_opened;
}

TEST(CudaMemory, WhereItEndsNobodyIsToldAnythingElse) {
  const TestDriver driver;
  Seen seen;
  const Worlds all = worlds(n_worlds());
  for (int number = all.first; number < all.end; ++number) {
    run_world(driver, number, seen);
    ASSERT_EQ(driver.alive(), 0) << "of world " << number;
    ASSERT_FALSE(HasFailure()) << "in world " << number;
    if (all.are_told) std::fprintf(stderr, "world %d is done\n", number);
  }
  if (all.end - all.first >= 15) {  // fewer worlds need not meet each of these
    EXPECT_GT(seen.n_not_opened, 1);
    EXPECT_GT(seen.n_refused, 10);
    EXPECT_GT(seen.n_loaded, 10);
    EXPECT_GT(seen.n_ahead, 0);
  }
  std::printf("worlds not opened: %d, adapters refused: %d, loaded: %d, steps ahead: %ld\n", seen.n_not_opened,
              seen.n_refused, seen.n_loaded, static_cast<long>(seen.n_ahead));
}

}  // namespace
}  // namespace quire
