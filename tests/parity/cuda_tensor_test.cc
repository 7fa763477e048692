// Tensor arithmetic, by way of a driver too: near the reference backend's loops, and parts of a product in other
// formats with the bits that they have everywhere. Its own bits: backend/cuda/emulated/tensor_products_test.cc.
#include "backend/ref/ref_ops.h"
#include "tests/parity/cuda_corpus.h"

namespace quire {
namespace {

std::vector<float> on(Ops& ops, Body body) {
  Bench bench(ops);
  return body(bench);
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
  expect_near_the_reference([](Bench& bench) { return product_of_floats(bench, "bf16", 300, 160, 140); }, kTolerance);
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

template <int64_t kRows>
std::vector<float> parts_in_all_formats(Bench& bench) {
  const Linear parts[] = {bench.matrix(70, 320, 1, true, "bf16"), bench.matrix(33, 320, 3, true),
                          bench.matrix(9, 320, 5, false, "f16"), bench.matrix(7, 320, 6, false, "f8_32")};
  const Tensor y = bench.floats(Matrix(kRows, 119));
  bench.ops().linear(y, bench.floats(Matrix(kRows, 320, 2)), parts);
  return bench.values(y.columns(70, 49));
}

TEST(CudaTensorParity, OtherFormatsHaveTheBitsOfTheCpu) {
  for (const Body body : {parts_in_all_formats<17>, parts_in_all_formats<140>}) {
    for (const std::vector<float>& got : in_tensor_arithmetic(body)) EXPECT_TRUE(same_bits(on_cpu(body), got));
  }
}

// Products that share rows, of few rows and of many: by themselves and together they have the same bits.
template <int64_t kRows, bool kApart>
std::vector<float> parts_of_bf16(Bench& bench) {
  const Linear parts[] = {bench.matrix(70, 200, 1, true, "bf16"), bench.matrix(129, 200, 2, false, "bf16"),
                          bench.matrix(1, 200, 3, true, "bf16")};
  const Tensor x = bench.floats(Matrix(kRows, 200, 2)), y = bench.floats(Matrix(kRows, 200));
  if (!kApart) bench.ops().linear(y, x, parts);
  int64_t column = 0;
  for (const Linear& part : parts) {
    if (kApart) bench.ops().linear(y.columns(column, part.n_out), x, {&part, 1});
    column += part.n_out;
  }
  return bench.values(y);
}

TEST(CudaTensorParity, PartsHaveTheBitsThatTheyHaveAlone) {
  const auto together = in_tensor_arithmetic(parts_of_bf16<260, false>);
  for (const std::vector<float>& got : in_tensor_arithmetic(parts_of_bf16<260, true>)) {
    EXPECT_TRUE(same_bits(together[0], got));
  }
  const std::span<const float> some(together[0]);
  for (const std::vector<float>& got : in_tensor_arithmetic(parts_of_bf16<3, false>)) {
    EXPECT_TRUE(same_bits(std::vector(some.begin(), some.begin() + 3 * 200), got));
  }
}

}  // namespace
}  // namespace quire
