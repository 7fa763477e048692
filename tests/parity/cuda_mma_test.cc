// The comparison of a device's tensor cores with their twin (tests/device/mma_check.h), on an emulated device: where
// that is the twin, all is equal, and another model is told from it.
#include <gtest/gtest.h>

#include "backend/cuda/driver/runtime_cuda.h"
#include "backend/cuda/emulated/fake_libcuda.h"
#include "backend/cuda/emulated/runtime_fake.h"
#include "tests/device/mma_check.h"
#include "tests/device/wgmma_check.h"

namespace quire {
namespace {

MmaFindings checked(const MmaCheck& check) {
  std::string fault;
  const auto runtime = cuda::make_fake_runtime({.seed = 1, .fault = &fault});
  const MmaFindings out = check_mma(*runtime, check);
  EXPECT_EQ(fault, "");
  return out;
}

TEST(CudaMma, AnEmulatedDeviceIsItsTwin) {
  const MmaFindings found = checked({.n_tiles = 300, .n_threads = 3, .batch = 128});
  EXPECT_EQ(found.n_equal, 300) << found.text;
}

TEST(CudaMma, ByWayOfADriverToo) {
  const auto runtime = cuda::open_driver_runtime(
      {.library = cuda::fake_libcuda_path(), .image = std::as_bytes(std::span(cuda::kFakeImage))});
  const MmaFindings found = check_mma(**runtime, {.n_tiles = 28, .n_threads = 2, .batch = 10});
  EXPECT_EQ(found.n_equal, 28) << found.text;
}

TEST(CudaMma, AnotherModelIsToldAndTheRightOneFound) {
  const MmaFindings found = checked({.n_tiles = 28, .seed = 2, .core = emulated::kAmpereCore});
  EXPECT_LT(found.n_equal, 14);
  EXPECT_EQ(found.best, emulated::kHopperCore) << found.text;
  EXPECT_NE(found.text.find("value: tile 0 (bell), row "), std::string::npos) << found.text;
}

// Each kind of tiles is there to tell some model from the twin; here every model that differs in one thing.
TEST(CudaMma, EveryChoiceOfTheModelIsSeen) {
  using emulated::ZeroExponent;
  std::vector<emulated::TensorCore> others = {{.fraction_bits = 24},
                                              {.fraction_bits = 26},
                                              {.n_together = 8},
                                              {.zero = ZeroExponent::least},
                                              {.zero = ZeroExponent::of_factors},
                                              {.is_normalised = true},
                                              {.is_floored = true},
                                              {.is_rounded = true},
                                              {.is_flushed = true},
                                              {.is_saturated = true}};
  for (const emulated::TensorCore& other : others) {
    std::array<cuda::Fragment, 32> none{};
    bool is_seen = false;
    for (int64_t t = 0; t < 2000 && !is_seen; ++t) {
      mma_check::Tile tile = mma_check::tile_of(1, t, none.data());
      for (size_t r = 0; r < 16; ++r) {
        for (size_t c = 0; c < 8; ++c) tile.got[r][c] = mma_check::twin_of(other, tile, r, c);
      }
      is_seen = mma_check::compare(emulated::kHopperCore, tile).what == mma_check::Difference::value;
    }
    EXPECT_TRUE(is_seen) << describe(other);
  }
}

TEST(CudaMma, WgmmaOfAnEmulatedDeviceIsItsTwin) {
  const auto runtime = cuda::make_fake_runtime({.seed = 1});
  const WgmmaFindings found = *check_wgmma(*runtime, {.n_products = 2, .n_threads = 3});
  EXPECT_EQ(found.n, 2 * 256 * 128);
  EXPECT_EQ(found.n_as_mma, found.n) << found.text;
  EXPECT_EQ(found.n_as_twin, found.n) << found.text;
}

TEST(CudaMma, AWgmmaThatSumsOtherwiseIsTold) {
  const auto runtime = cuda::make_fake_runtime({.mutation = {emulated::Mutation::Kind::other_sums}});
  const WgmmaFindings found = *check_wgmma(*runtime, {.n_products = 1});
  EXPECT_EQ(found.n_mma_as_twin, found.n) << found.text;
  EXPECT_LT(found.n_as_mma, found.n);
  EXPECT_NE(found.text.find("differs: seed 1, row "), std::string::npos) << found.text;
}

}  // namespace
}  // namespace quire
