// What adapters add to products on the CUDA backend: the CPU's bits, for rows of several adapters and of none, however
// their numbers are held.
#include "tests/parity/cuda_corpus.h"

namespace quire {
namespace {

constexpr float (*kRounded[])(float) = {[](float v) { return v; }, [](float v) { return f16_to_f32(f32_to_f16(v)); },
                                        [](float v) { return bf16_to_f32(f32_to_bf16(v)); }};

std::vector<float> sums(Bench& bench, int64_t n, const std::vector<OneLayer::Shape>& shapes, int held) {
  OneLayer layer;
  layer.rounded = kRounded[held];
  layer.add(bench.ops(), &AdapterLayer::qkv, shapes, 5);
  int64_t wide = 0;
  for (const OneLayer::Shape& shape : shapes) wide += shape.n_out;
  const Tensor y = bench.floats(Matrix(n, wide, 1)), x = bench.floats(Matrix(n, shapes[0].n_in + 3, 2));
  const std::vector<AdapterRows> rows = layer.rows(n);
  bench.ops().add_low_rank(y, x.columns(3, shapes[0].n_in), {rows, 0, &AdapterLayer::qkv});
  return bench.values(y);
}

TEST(CudaLowRank, SumsHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return sums(bench, 1, {{40, 7}}, 0); });
  expect_same([](Bench& bench) { return sums(bench, 9, {{15, 130}}, 0); });
  expect_same([](Bench& bench) { return sums(bench, 16, {{333, 70}, {333, 3}, {333, 200}}, 1); });
  expect_same([](Bench& bench) { return sums(bench, 33, {{544, 65}, {544, 3}, {544, 40}, {544, 5}, {544, 9}}, 2); });
}

// Beside others or alone.
TEST(CudaLowRank, ARowGetsTheSameWhateverStandsBesideIt) {
  expect_same([](Bench& bench) {
    OneLayer layer;
    layer.add(bench.ops(), &AdapterLayer::down, {{64, 48}}, 5);
    const Tensor together = bench.floats(Matrix(7, 48, 1)), apart = bench.floats(Matrix(7, 48, 1));
    const Tensor x = bench.floats(Matrix(7, 64, 2));
    const std::vector<AdapterRows> rows = {{layer.adapters.data(), 0, 3}, {&layer.adapters[1], 5, 7}};
    bench.ops().add_low_rank(together, x, {rows, 0, &AdapterLayer::down});
    for (int64_t row = 0; row < 7; ++row) {
      if (row == 3 || row == 4) continue;
      const AdapterRows one{&layer.adapters[row < 3 ? 0 : 1], 0, 1};
      bench.ops().add_low_rank(apart.rows(row, 1), x.rows(row, 1), {{&one, 1}, 0, &AdapterLayer::down});
    }
    std::vector<float> out = bench.values(together);
    EXPECT_TRUE(same_bits(out, bench.values(apart)));
    return out;
  });
}

// Of an embedding's adapter.
TEST(CudaLowRank, RowsOfATableHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    std::vector<float> out;
    for (const auto& rounded : kRounded) {
      OneLayer layer;
      layer.rounded = rounded;
      layer.add(bench.ops(), &AdapterLayer::qkv, {{20, 6}}, 3);
      const Linear& table = layer.adapters[1].layers[0].qkv[0].a;  // of 17 rows
      const Tensor y = bench.floats(Matrix(4, 20));
      bench.ops().embed(y, bench.ints({7, 16, 0, 7}), table);
      std::ranges::copy(bench.values(y), std::back_inserter(out));
    }
    return out;
  });
}

// The parts of a layer, whose products are quantised in front.
TEST(CudaLowRank, PartsHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    constexpr int64_t kWide = 64, kHidden = 96;
    OneLayer layer;
    layer.add(bench.ops(), &AdapterLayer::gate_up, {{kWide, kHidden}, {kWide, kHidden}}, 5);
    layer.add(bench.ops(), &AdapterLayer::down, {{kHidden, kWide}}, 25);
    const Linear both[] = {bench.matrix(kHidden, kWide, 1), bench.matrix(kHidden, kWide, 2)};
    const Linear down = bench.matrix(kWide, kHidden, 3);
    std::vector<float> out;
    for (const int64_t n : {1, 20}) {
      NormedRows in;
      in.x = bench.floats(Matrix(n, kWide, 4));
      in.w = bench.vector(kWide, 5);
      in.eps = 1e-5F;
      in.normed = bench.floats(Matrix(n, kWide));
      const std::vector<AdapterRows> rows = layer.rows(n);
      const FeedForwardPart part{.gate_up = both,
                                 .activation = Activation::silu,
                                 .down = {&down, 1},
                                 .scratch = bench.floats(Matrix(n, 2 * kHidden)),
                                 .adapters = rows};
      const Tensor y = bench.floats(Matrix(n, kWide));
      bench.ops().feed_forward(y, in, part);
      std::ranges::copy(bench.values(y), std::back_inserter(out));
    }
    return out;
  });
}

}  // namespace
}  // namespace quire
