// Attention over caches of every codec on the CUDA backend: the CPU's bits.
#include "ops/op_check.h"
#include "tests/parity/cuda_corpus.h"

namespace quire {
namespace {

void append(std::vector<float>& to, const std::vector<float>& some) { to.insert(to.end(), some.begin(), some.end()); }

// Rows one by one and many, heads of any width, windows, soft caps and sinks.
std::vector<float> attended_all(Bench& bench, std::string_view codec) {
  std::vector<float> out;
  for (const float spread : {1.0F, 30.0F}) {
    append(out, attended(bench, {4, 2, 16, {300, 0}, {1, 3}, 0, 0, false, codec, 0, spread}));
    append(out, attended(bench, {3, 3, 15, {270, 40}, {2, 9}, 21, 0, false, codec, 0, spread}));
  }
  append(out, attended(bench, {6, 2, 64, {258}, {3}, 200, 2.0F, true, codec}));
  append(out, attended(bench, {5, 1, 96, {250, 0}, {12, 8}, 0, 0, false, codec, 80}));
  append(out, attended(bench, {2, 1, 75, {5}, {10}, 0, 0, true, codec}));
  append(out, attended(bench, {2, 1, 320, {20}, {2}, 0, 0, false, codec, 150}));
  return out;
}

TEST(CudaCache, BytesHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return attended_all(bench, "q8"); });
  expect_same([](Bench& bench) { return attended_all(bench, "f8"); });
}

TEST(CudaCache, HalfBytesHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return attended_all(bench, "q4"); });
  expect_same([](Bench& bench) { return attended_all(bench, "k8v4"); });
}

TEST(CudaCache, Bf16HasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return attended_all(bench, "bf16"); });
  // Products, scores and values about the least normal number.
  const Body tiny = [](Bench& bench) {
    std::vector<float> out;
    for (const float spread : {0x1p-61F, 0x1p-63F, 0x1p-121F, 0x1p-123F}) {
      append(out, attended(bench, {3, 1, 15, {270}, {9}, 100, 0, false, "bf16", 0, spread}));
      append(out, attended(bench, {2, 1, 16, {20}, {1}, 0, 3.0F, true, "bf16", 0, spread}));
    }
    return out;
  };
  const std::vector<float> truth = on_cpu(tiny);
  EXPECT_GT(std::ranges::count(truth, 0.0F), 10);
  EXPECT_GT(std::ranges::count_if(truth, [](float v) { return v != 0 && std::fabs(v) < 0x1p-123F; }), 10);
  expect_same(tiny);
}

// Rows at every place of a strip, their strips packed in the chunk's middle and at its ends; windows of less than a
// strip, which are tails alone, and of more.
TEST(CudaCache, TwoBitsHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return attended_all(bench, "kivi2"); });
  expect_same([](Bench& bench) {
    std::vector<float> out;
    append(out, attended(bench, {2, 1, 24, {0, 15, 16}, {34, 2, 1}, 0, 0, false, "kivi2"}));
    append(out, attended(bench, {4, 2, 40, {255, 500}, {3, 40}, 9, 0, true, "kivi2", 33}));
    append(out, attended(bench, {2, 2, 32, {40, 511}, {8, 2}, 50, 0, false, "kivi2", 0, 1.0F, 8.0F}));
    append(out, attended(bench, {2, 1, 16, {33}, {9}, 0, 0, false, "kivi2", 0, 1e9F}));  // infinite as halves
    for (float& x : out) x = std::isnan(x) ? 1e30F : x;
    return out;
  });
}

TEST(CudaCache, EveryCodecHasKernels) {
  for (const KvCodec* codec : kv_codecs()) {
    AttnParams params{.k_codec = codec, .v_codec = codec, .k_dim = 576, .v_dim = 512};
    EXPECT_TRUE(check_cuda_has({&params, 1})) << codec->name;
  }
}

// Rows that are not finite, that are nothing, and of which two components are as far from zero: what attention makes
// of them is no number, or nothing.
TEST(CudaCache, RowsOfBadNumbersAreKeptAsTheCpuKeepsThem) {
  static std::string_view name;
  for (const KvCodec* codec : kv_codecs()) {
    if (codec->packs()) continue;
    name = codec->name;
    const Body body = [](Bench& bench) {
      constexpr int kTokens = 16, kDim = 24;
      const KvCodec& kept = *find_kv_codec(name);
      const int64_t block_bytes = (kept.k_row_bytes(kDim) + kept.v_row_bytes(kDim)) * kTokens;
      KvView view;
      view.n_groups = 1;
      view.groups[0] = {bench.bytes(block_bytes, 0), block_bytes, kTokens};
      AttnParams params{
          .k_codec = &kept, .v_codec = &kept, .n_heads = 1, .n_kv_heads = 1, .k_dim = kDim, .v_dim = kDim};
      Matrix k(6, kDim, 1), v(6, kDim, 2);
      for (Matrix* m : {&k, &v}) {
        std::fill_n(m->values.begin(), kDim, 0.0F);
        std::fill_n(m->values.begin() + kDim, kDim, 0x1p-122F);
        m->values[2 * kDim + 3] = INFINITY;
        m->values[3 * kDim + 5] = NAN;
        for (size_t d = 0; d < kDim; ++d) {
          m->values[size_t{4} * kDim + d] = d % 3 == 0 ? 0.5F : -0.5F;
          m->values[size_t{5} * kDim + d] = std::ldexp(1.0F, static_cast<int>(d) - 14);
        }
      }
      bench.ops().kv_write(bench.floats(k), bench.floats(v), bench.ints({0, 1, 2, 3, 4, 5}), view, params);
      bench.ops().finish();
      std::vector<float> out;
      std::vector<float> row(kDim);
      for (int t = 0; t < 6; ++t) {
        const KvPlace at = kv_place(view, params, t, 0);
        kept.get_k(at.k, at.t, kDim, row.data());
        append(out, row);
        kept.get_v(at.v, at.t, kDim, row.data());
        append(out, row);
      }
      for (float& number : out) number = std::isnan(number) ? 1e30F : number;
      return out;
    };
    expect_same(body);
  }
}

TEST(CudaCache, SlopesHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    std::vector<float> out;
    for (const std::string_view codec : {"f16", "q8", "bf16"}) {
      append(out, attended(bench, {6, 2, 24, {300}, {3}, 0, 0, false, codec, 0, 1.0F, 8.0F}));
      append(out, attended(bench, {4, 1, 32, {250, 0}, {12, 9}, 40, 5.0F, true, codec, 0, 1.0F, 8.0F}));
    }
    return out;
  });
}

// Rows before and behind the first that misses a key, near the window and far from it.
std::vector<float> kept_all(Bench& bench, std::string_view codec) {
  std::vector<float> out;
  for (const bool turns : {false, true}) {
    append(out, attended(bench, {4, 2, 24, {30, 4}, {12, 9}, 32, 0, false, codec, 0, 1.0F, 0, false, 4, turns}));
    append(out, attended(bench, {3, 1, 16, {600}, {2}, 20, 3.0F, true, codec, 0, 1.0F, 0, false, 37, turns}));
    append(out, attended(bench, {2, 2, 32, {270, 700}, {9, 1}, 10, 0, false, codec, 0, 1.0F, 0, false, 256, turns}));
  }
  return out;
}

TEST(CudaCache, KeysKeptBesideAWindowHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return kept_all(bench, "f16"); });
  expect_same([](Bench& bench) { return kept_all(bench, "q4"); });
  expect_same([](Bench& bench) { return kept_all(bench, "bf16"); });
  expect_same([](Bench& bench) {
    std::vector<float> out =
        attended(bench, {4, 2, 24, {30, 4}, {12, 9}, 32, 0, false, "kivi2", 0, 1.0F, 0, false, 4, true});
    append(out, attended(bench, {2, 2, 32, {270, 700}, {9, 1}, 16, 0, false, "kivi2", 0, 1.0F, 0, false, 256, true}));
    return out;
  });
}

TEST(CudaCache, ValuesInKeysHaveTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    std::vector<float> out;
    for (const KvCodec* codec : kv_codecs()) {
      if (!codec->values_in_keys) continue;
      append(out, attended(bench, {5, 1, 48, {270}, {9}, 0, 0, false, codec->name, 32, 1.0F, 0, true}));
      append(out, attended(bench, {2, 1, 576, {30}, {1}, 0, 0, false, codec->name, 512, 1.0F, 0, true}));
    }
    append(out, attended(bench, {3, 1, 27, {40}, {2}, 0, 0, false, "bf16", 15, 1.0F, 0, true}));
    append(out, attended(bench, {3, 1, 27, {40}, {2}, 0, 0, false, "f16", 15, 1.0F, 0, true}));
    return out;
  });
}

}  // namespace
}  // namespace quire
