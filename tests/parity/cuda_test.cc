// The CUDA backend against the CPU's: the same bits on every device that there is, whatever the order in which its
// threads run.
#include "tests/parity/cuda_corpus.h"

namespace quire {
namespace {

TEST(Cuda, LinearHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return product(bench, 1, 32, 1); });
  expect_same([](Bench& bench) { return product(bench, 5, 256, 64); });
  expect_same([](Bench& bench) { return product(bench, 16, 768, 65); });
  expect_same([](Bench& bench) { return product(bench, 33, 96, 130); });
  expect_same(one_product);
  expect_same(one_product_of_many_rows);
  expect_same([](Bench& bench) { return product(bench, 65, 32, 1); });
  expect_same([](Bench& bench) { return product(bench, 64, 288, 129); });
  expect_same([](Bench& bench) { return product(bench, 129, 1120, 192); });
}

// Parts that share an order of columns, have another one or none, and one of floats between them.
TEST(Cuda, LinearOfColumnsInAnOrderHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    const char* formats[] = {"q8_0", "q4_0", "q8_0", "f16", "q8_0"};
    const uint64_t orders[] = {7, 7, 8, 0, 0};
    std::vector<float> out;
    for (const int64_t n : {1, 5, 40}) {
      std::vector<Linear> parts;
      parts.reserve(5);
      for (size_t p = 0; p < 5; ++p) {
        parts.push_back(
            load_ordered(bench.ops(), stored_weight(*find_weight_format(formats[p]), 20, 96, p), orders[p]));
      }
      const Tensor y = bench.floats(Matrix(n, 100));
      bench.ops().linear(y, bench.floats(Matrix(n, 96, 2)), parts);
      std::ranges::copy(bench.values(y), std::back_inserter(out));
    }
    return out;
  });
}

// More runs of rows than share weights, in uneven batches.
TEST(Cuda, LinearOfManyRowsHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return product(bench, 8 * 128 + 1, 64, 3); });
}

TEST(Cuda, LinearOfFloatsHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return product_of_floats(bench, "f32", 1, 32, 2); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "f32", 17, 333, 70); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "f16", 5, 15, 64); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "f16", 33, 544, 65); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "bf16", 1, 32, 2); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "bf16", 5, 15, 64); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "bf16", 17, 333, 70); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "bf16", 33, 544, 65); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "f8_32", 17, 352, 70); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "f8_128", 3, 384, 65); });
}

// Every byte of e4m3 but NaN, under scales of any kind.
TEST(Cuda, LinearOfAnyF8HasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    const Linear parts[] = {bench.any_matrix(*find_weight_format("f8_32"), 66, 352, 1)};
    const Tensor y = bench.floats(Matrix(3, 66)), embedded = bench.floats(Matrix(3, 352));
    bench.ops().linear(y, bench.floats(Matrix(3, 352, 2)), parts);
    bench.ops().embed(embedded, bench.ints({65, 0, 1}), parts[0]);
    std::vector<float> out = bench.values(y);
    std::ranges::copy(bench.values(embedded), std::back_inserter(out));
    return out;
  });
}

// Products and sums on either side of the least normal number: BF16 has none below it.
TEST(Cuda, LinearOfTinyBf16HasTheBitsOfTheCpu) {
  const Body body = [](Bench& bench) {
    constexpr int64_t kIn = 95, kOut = 640;
    Stored w = stored_weight(*find_weight_format("f32"), kOut, kIn, 1);
    std::vector<std::byte> halves(static_cast<size_t>(kOut * kIn * 2));
    Rng rng(4);
    for (int64_t i = 0; i < kOut * kIn; ++i) {
      const float tiny = std::ldexp(load_as<float>(w.bytes.data() + i * 4), static_cast<int>(rng.between(-126, -60)));
      store_as<uint16_t>(halves.data() + i * 2, f32_to_bf16(tiny));
    }
    w.bytes = halves;
    w.weight.format = find_weight_format("bf16");
    w.weight.data = w.bytes;
    Stored bias = stored_weight(*find_weight_format("f32"), 1, kOut, 5);
    bias.weight.shape = {kOut};
    for (int64_t i = 0; i < kOut; ++i) {
      store_as<float>(bias.bytes.data() + i * 4, std::ldexp(load_as<float>(bias.bytes.data() + i * 4), -124));
    }
    Matrix x(20, kIn, 2);
    for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = std::ldexp(x.values[i], i % 3 == 0 ? -66 : -63);
    x.values[7] = 0x1p-130F;
    const Linear part = *bench.ops().load_linear(w.weight, &bias.weight, Shard{});
    const Tensor y = bench.floats(Matrix(20, kOut));
    bench.ops().linear(y, bench.floats(x), {&part, 1});
    return bench.values(y);
  };
  const std::vector<float> truth = on_cpu(body);
  EXPECT_GT(std::ranges::count(truth, 0.0F), 100);
  EXPECT_GT(std::ranges::count_if(truth, [](float v) { return std::fabs(v) >= 0x1p-126F; }), 100);
  EXPECT_EQ(std::ranges::count_if(truth, [](float v) { return v != 0 && std::fabs(v) < 0x1p-126F; }), 0);
  expect_same(body);
}

// Every integer format, beside others in one product, and its rows.
std::vector<float> products_of_integers(Bench& bench, int64_t n) {
  std::vector<float> out;
  for (const WeightFormat* format : weight_formats()) {
    if (!format->integer) continue;
    const int64_t n_in = format->block > 64 ? 768 : format->block > 32 ? 320 : 352;
    const Linear parts[] = {bench.any_matrix(*format, 66, n_in, 1), bench.matrix(3, n_in, 3),
                            bench.matrix(5, n_in, 5, true, "f32")};
    const Tensor y = bench.floats(Matrix(n, 74)), embedded = bench.floats(Matrix(3, n_in));
    bench.ops().linear(y, bench.floats(Matrix(n, n_in, 2)), parts);
    bench.ops().embed(embedded, bench.ints({65, 0, 1}), parts[0]);
    for (const Tensor& t : {y, embedded}) std::ranges::copy(bench.values(t), std::back_inserter(out));
  }
  return out;
}

TEST(Cuda, LinearOfEveryIntegerFormatHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return products_of_integers(bench, 3); });
  expect_same([](Bench& bench) { return products_of_integers(bench, 11); });
  expect_same([](Bench& bench) { return products_of_integers(bench, 17); });
  expect_same([](Bench& bench) { return products_of_integers(bench, 66); });
}

TEST(Cuda, LinearOfTinyAndOfBadNumbers) {
  const Body body = [](Bench& bench) {
    Matrix x(3, 64, 2);
    for (size_t i = 0; i < 32; ++i) x.values[i] *= 0x1p-121F;
    x.values[64 + 3] = INFINITY;
    const Linear w = bench.matrix(16, 64, 1);
    const Tensor y = bench.floats(Matrix(3, 16));
    bench.ops().linear(y, bench.floats(x), {&w, 1});
    return bench.values(y);
  };
  const std::vector<float> truth = on_cpu(body);
  for (const std::vector<float>& got : on_devices(body)) {
    for (size_t i = 0; i < truth.size(); ++i) {
      const bool is_bad = i / 16 == 1;
      EXPECT_EQ(std::isnan(truth[i]), is_bad) << i;
      EXPECT_EQ(std::isnan(got[i]), is_bad) << i;
      if (is_bad) continue;
      EXPECT_EQ(std::bit_cast<uint32_t>(truth[i]), std::bit_cast<uint32_t>(got[i])) << i;
    }
  }
}

TEST(Cuda, RowOpsHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    constexpr int64_t kWide = 172;
    Ops& ops = bench.ops();
    const Tensor x = bench.floats(Matrix(5, kWide, 1)), y = bench.floats(Matrix(5, kWide));
    const Tensor z = bench.floats(Matrix(5, kWide)), delta = bench.floats(Matrix(5, kWide, 2));
    ops.rms_norm(y, x, bench.vector(kWide, 3), 1e-5F);
    ops.add_rms_norm(z, x, delta, bench.vector(kWide, 4), 1e-5F);
    ops.head_norm(y.columns(43, 86), bench.vector(43, 5), 1e-6F);
    ops.add(z, y);
    ops.gated(y, z, x, Activation::silu);
    const Tensor picked = bench.floats(Matrix(2, kWide));
    ops.rows(picked, y, bench.ints({4, 1}));
    const Tensor embedded = bench.floats(Matrix(3, 96));
    ops.embed(embedded, bench.ints({20, 0, 7}), bench.matrix(21, 96, 6));
    std::vector<float> out = bench.values(y);
    for (const Tensor& t : {x, z, picked, embedded}) std::ranges::copy(bench.values(t), std::back_inserter(out));
    return out;
  });
}

TEST(Cuda, OtherRowOpsHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    constexpr int64_t kWide = 172;
    Ops& ops = bench.ops();
    const Tensor x = bench.floats(Matrix(11, kWide, 1, 3.0F)), y = bench.floats(Matrix(11, kWide));
    const Tensor z = bench.floats(Matrix(11, kWide));
    ops.layer_norm(y, x, bench.vector(kWide, 2), bench.vector(kWide, 3), 1e-5F);
    ops.layer_norm(z, x, bench.vector(kWide, 2), Tensor{}, 1e-5F);
    ops.scale(z, 0.3F);
    ops.gate_rows(y, bench.floats(Matrix(11, 1, 4, 4.0F)));
    ops.soft_cap(x, 2.0F);
    std::vector<float> out = bench.values(y);
    for (const Tensor& t : {x, z}) std::ranges::copy(bench.values(t), std::back_inserter(out));
    return out;
  });
}

TEST(Cuda, EveryActivationHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    std::vector<float> out;
    for (int kind = 0; kind < kActivations; ++kind) {
      const auto act = static_cast<Activation>(kind);
      for (const float spread : {0.1F, 3.0F, 40.0F}) {
        const Tensor gate = bench.floats(Matrix(2, 172, 1, spread)), up = bench.floats(Matrix(2, 172, 2, spread));
        const Tensor y = bench.floats(Matrix(2, 172));
        bench.ops().gated(y, gate, up, act);
        std::ranges::copy(bench.values(y), std::back_inserter(out));
        if (act == Activation::clamped_silu) continue;
        bench.ops().gated(y, gate, Tensor{}, act);
        std::ranges::copy(bench.values(y), std::back_inserter(out));
      }
    }
    return out;
  });
}

TEST(Cuda, ExpertsHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    constexpr int64_t kWide = 64, kHidden = 96;
    Experts experts;
    for (uint64_t e = 0; e < 5; ++e) {
      experts.gate_up.push_back({bench.matrix(kHidden, kWide, 10 + e), bench.matrix(kHidden, kWide, 20 + e)});
      experts.down.push_back(bench.matrix(kWide, kHidden, 30 + e));
    }
    experts.routing.n_used = 2;
    experts.choice_bias = bench.vector(5, 8);
    const Tensor y = bench.floats(Matrix(7, kWide));
    const MoeInput in{bench.floats(Matrix(7, kWide, 1)), bench.floats(Matrix(7, 5, 2)),
                      bench.floats(Matrix(14, kWide + 3 * kHidden))};
    bench.ops().moe(y, in, experts);
    return bench.values(y);
  });
}

std::vector<float> turned(Bench& bench, RopePairs pairs) {
  constexpr int64_t kFreq = 6;
  std::vector<int32_t> freq_bits;
  for (int64_t i = 0; i < kFreq; ++i) {
    const auto bits = std::bit_cast<uint64_t>(std::pow(1e4, -static_cast<double>(i) / kFreq));
    freq_bits.push_back(static_cast<int32_t>(bits & 0xffffffffU));
    freq_bits.push_back(static_cast<int32_t>(bits >> 32));
  }
  Tensor freq = bench.ints(freq_bits);
  freq = Tensor::dense(freq.data, DType::i64, {kFreq});
  const Tensor x = bench.floats(Matrix(3, 3 * 16, 1));
  const Tensor table = bench.floats(Matrix(3, 2 * kFreq));
  const Tensor rotation = Tensor::dense(table.data, DType::f32, {3, kFreq, 2});
  bench.ops().rope_table(rotation, bench.ints({0, 1, 4095}), freq, 1.25);
  bench.ops().rope(x, rotation, 16, pairs);
  return bench.values(x);
}

TEST(Cuda, RopeHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return turned(bench, RopePairs::halves); });
  expect_same([](Bench& bench) { return turned(bench, RopePairs::interleaved); });
}

TEST(Cuda, AttentionHasTheBitsOfTheCpu) {
  expect_same(one_attention);
  expect_same([](Bench& bench) { return attended(bench, {1, 1, 16, {0}, {1}}); });
  expect_same([](Bench& bench) { return attended(bench, {8, 2, 64, {255, 256, 15}, {1, 1, 4}}); });
  expect_same([](Bench& bench) { return attended(bench, {7, 1, 80, {300}, {9}}); });
  expect_same([](Bench& bench) { return attended(bench, {3, 3, 15, {600, 40}, {2, 30}, 20}); });
  expect_same([](Bench& bench) { return attended(bench, {6, 2, 24, {530}, {3}, 300, 2.0F, true}); });
}

// Tiles of rows that end within a sequence, hold several, and cross chunks; heads that are wide, odd, and more than a
// tile takes together.
TEST(Cuda, AttentionOfManyRowsHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return attended(bench, {4, 1, 128, {0, 250}, {20, 17}}); });
  expect_same([](Bench& bench) { return attended(bench, {8, 2, 64, {240, 3, 500, 9}, {33, 9, 8, 2}, 100}); });
  expect_same([](Bench& bench) { return attended(bench, {1, 1, 16, {200}, {70}, 0, 2.0F, true}); });
  expect_same([](Bench& bench) { return attended(bench, {5, 1, 32, {20}, {24}, 7}); });
  expect_same([](Bench& bench) { return attended(bench, {2, 1, 75, {5}, {10}}); });
  expect_same([](Bench& bench) { return attended(bench, {4, 2, 128, {500}, {9}, 0, 0, false, "q8", 64}); });
  expect_same([](Bench& bench) { return attended(bench, {5, 1, 256, {250}, {12}, 0, 0, false, "q8"}); });
  expect_same([](Bench& bench) { return attended(bench, {2, 1, 128, {250, 0}, {12, 8}, 0, 0, false, "f32"}); });
}

TEST(Cuda, AttentionOfWideHeadsHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return attended(bench, {2, 1, 256, {260}, {1}}); });
  expect_same([](Bench& bench) { return attended(bench, {4, 1, 192, {30}, {9}, 0, 0, false, "f16", 128}); });
  expect_same([](Bench& bench) { return attended(bench, {1, 1, 149, {40}, {2}}); });
  expect_same([](Bench& bench) { return attended(bench, {2, 1, 576, {260}, {9}, 0, 0, false, "f16", 512}); });
  expect_same([](Bench& bench) { return attended(bench, {1, 1, 320, {20}, {1}, 0, 0, false, "q8", 576}); });
  expect_same([](Bench& bench) { return attended(bench, {1, 1, 301, {20}, {1}, 0, 0, false, "f32"}); });
}

TEST(Cuda, AttentionOfOtherCachesHasTheBitsOfTheCpu) {
  expect_same(one_attention_of_q8);
  expect_same([](Bench& bench) { return attended(bench, {7, 1, 80, {300}, {9}, 0, 0, false, "q8"}); });
  expect_same([](Bench& bench) { return attended(bench, {3, 3, 15, {600, 40}, {2, 30}, 20, 0, false, "q8"}); });
  expect_same([](Bench& bench) { return attended(bench, {6, 2, 64, {530}, {3}, 300, 2.0F, true, "q8"}); });
  expect_same([](Bench& bench) { return attended(bench, {6, 2, 24, {530}, {3}, 300, 2.0F, true, "f32"}); });
}

TEST(Cuda, SampleHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    std::vector<SampleParams> params(40);
    for (size_t i = 0; i < params.size(); ++i) {
      params[i].temperature = i % 4 == 0 ? 0.0F : 0.8F;
      params[i].top_p = i % 3 == 0 ? 0.9F : 1.0F;
      params[i].draw = random_unit(5, i);
      params[i].n_top = 3;
    }
    std::vector<Sampled> out(40);
    bench.ops().sample(out, bench.floats(Matrix(40, 1000, 11, 3.0F)), params);
    std::vector<float> flat;
    for (const Sampled& s : out) {
      flat.insert(flat.end(), {static_cast<float>(s.token), s.logprob});
      for (const TopLogprob& top : s.top) flat.push_back(top.logprob);
    }
    return flat;
  });
}

}  // namespace
}  // namespace quire
