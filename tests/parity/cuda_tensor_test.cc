// Tensor arithmetic, by way of a driver too: near the reference backend's loops, and parts of a product in other
// formats with the bits that they have everywhere. Its own bits: backend/cuda/emulated/tensor_products_test.cc.
#include "backend/cuda/driver/runtime_cuda.h"
#include "backend/cuda/emulated/fake_libcuda.h"
#include "backend/cuda/emulated/runtime_fake.h"
#include "backend/ref/ref_ops.h"
#include "tests/parity/cuda_corpus.h"

namespace quire {
namespace {

std::vector<float> on(Ops& ops, Body body) {
  Bench bench(ops);
  return body(bench);
}

std::vector<std::vector<float>> in_tensor_arithmetic(Body body) {
  std::vector<std::vector<float>> out;
  const auto driver = cuda::open_driver_runtime(
      {.library = cuda::fake_libcuda_path(), .image = std::as_bytes(std::span(cuda::kFakeImage))});
  for (const auto& runtime : {*driver, cuda::make_fake_runtime({.seed = 1})}) {
    out.push_back(on(**cuda::CudaOps::make(runtime, cpu_sample_kernels(), CudaArithmetic::tensor), body));
  }
  return out;
}

void expect_near_the_reference(Body body, float tolerance) {
  const std::vector<float> truth = on(*make_ref_ops(), body);
  const float largest = std::fabs(*std::ranges::max_element(truth, {}, [](float v) { return std::fabs(v); }));
  const std::vector<std::vector<float>> all = in_tensor_arithmetic(body);
  EXPECT_TRUE(same_bits(all[0], all[1]));
  ASSERT_EQ(all[0].size(), truth.size());
  for (size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(all[0][i], truth[i], tolerance * largest) << i;
}

TEST(CudaTensorParity, ProductsAndTablesAreNearTheReference) {
  constexpr float kTolerance = 5e-5F;  // as of the CPU's products of so many k
  expect_near_the_reference([](Bench& bench) { return product_of_floats(bench, "bf16", 1, 32, 2); }, kTolerance);
  expect_near_the_reference([](Bench& bench) { return product_of_floats(bench, "bf16", 17, 333, 70); }, kTolerance);
  expect_near_the_reference([](Bench& bench) { return product_of_floats(bench, "bf16", 70, 544, 65); }, kTolerance);
}

// Weights are rounded to BF16: of near ones one may be rounded up and the other down. Also what has no kernel by mma:
// wide heads, and values that are parts of keys.
TEST(CudaTensorParity, AttentionIsNearTheReference) {
  constexpr float kTolerance = 4e-3F;
  const auto near = [](Body body) { expect_near_the_reference(body, kTolerance); };
  near([](Bench& bench) { return attended(bench, {4, 2, 16, {300, 0, 260}, {1, 9, 8}, 0, 0, false, "bf16"}); });
  near([](Bench& bench) { return attended(bench, {6, 2, 24, {530}, {3}, 300, 2.0F, true, "bf16"}); });
  near([](Bench& bench) {
    return attended(bench, {.n_heads = 4,
                            .n_kv_heads = 1,
                            .dim = 32,
                            .past = {300},
                            .fresh = {12},
                            .window = 64,
                            .codec = "bf16",
                            .n_kept = 20,
                            .turns = true});
  });
  near([](Bench& bench) { return attended(bench, {4, 2, 24, {250}, {9}, 0, 0, false, "bf16", 0, 1.0F, 8.0F}); });
  near([](Bench& bench) { return attended(bench, {2, 1, 320, {20}, {2}, 0, 0, false, "bf16"}); });
  near([](Bench& bench) {
    return attended(bench, {.n_heads = 2,
                            .n_kv_heads = 1,
                            .dim = 48,
                            .past = {20},
                            .fresh = {2},
                            .codec = "bf16",
                            .v_dim = 32,
                            .values_in_keys = true});
  });
}

TEST(CudaTensorParity, OtherFormatsHaveTheBitsOfTheCpu) {
  const Body body = [](Bench& bench) {
    const Linear parts[] = {bench.matrix(70, 320, 1, true, "bf16"), bench.matrix(33, 320, 3, true),
                            bench.matrix(9, 320, 5, false, "f16"), bench.matrix(7, 320, 6, false, "f8_32")};
    const Tensor y = bench.floats(Matrix(17, 119));
    bench.ops().linear(y, bench.floats(Matrix(17, 320, 2)), parts);
    return bench.values(y.columns(70, 49));
  };
  for (const std::vector<float>& got : in_tensor_arithmetic(body)) EXPECT_TRUE(same_bits(on_cpu(body), got));
}

}  // namespace
}  // namespace quire
