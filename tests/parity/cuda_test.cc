// The CUDA backend on an emulated device against the CPU's: the same bits, whatever the order in which the device's
// threads run, and by way of a driver too. And the suite against itself: faults that are planted in the kernels are
// noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backend/cuda/backend.h"
#include "backend/cuda/cuda_ops.h"
#include "backend/cuda/driver/runtime_cuda.h"
#include "backend/cuda/emulated/fake_libcuda.h"
#include "backend/cuda/emulated/runtime_fake.h"
#include "quant/kv_codec.h"
#include "tests/parity/op_corpus.h"

namespace quire {
namespace {

// Tensors in memory that the backend computes on.
class Bench {
 public:
  explicit Bench(Ops& ops) : ops_(ops) {}
  Tensor floats(Matrix m) { return put(m.values.data(), DType::f32, {m.n, m.d}); }
  Tensor ints(const std::vector<int32_t>& v) { return put(v.data(), DType::i32, {static_cast<int64_t>(v.size())}); }
  Tensor vector(int64_t n, uint64_t seed) {
    const Stored stored = stored_weight(*find_weight_format("f32"), 1, n, seed);
    return *ops_.load_vector(stored.weight);
  }
  Linear matrix(int64_t n_out, int64_t n_in, uint64_t seed, bool has_bias = false, std::string_view format = "q8_0") {
    const Stored w = stored_weight(*find_weight_format(format), n_out, n_in, seed);
    Stored bias = stored_weight(*find_weight_format("f32"), 1, n_out, seed + 1);
    bias.weight.shape = {n_out};
    return *ops_.load_linear(w.weight, has_bias ? &bias.weight : nullptr, Shard{});
  }
  // Of blocks of any bytes that stand for numbers below a million.
  Linear any_matrix(const WeightFormat& format, int64_t n_out, int64_t n_in, uint64_t seed) {
    Stored w = stored_weight(format, n_out, n_in, seed);
    Rng rng(seed);
    std::vector<float> numbers(static_cast<size_t>(format.block));
    for (auto at = w.bytes.begin(); at != w.bytes.end(); at += format.bytes) {
      do {
        std::generate_n(at, format.bytes, [&] { return static_cast<std::byte>(rng.bits() >> 56); });
        format.decode(&*at, numbers.data());
      } while (!std::ranges::all_of(numbers, [](float v) { return std::fabs(v) < 1e6F; }));
    }
    return *ops_.load_linear(w.weight, nullptr, Shard{});
  }
  std::byte* bytes(int64_t n, int fill) {
    buffers_.push_back(*ops_.allocate(n));
    std::memset(buffers_.back().data(), fill, static_cast<size_t>(n));
    return buffers_.back().data();
  }
  Ops& ops() { return ops_; }

 private:
  Tensor put(const void* from, DType dtype, std::initializer_list<int64_t> shape) {
    Tensor out = Tensor::dense(nullptr, dtype, shape);
    out.data = bytes(std::max<int64_t>(1, out.n_elements()) * 4, 0);
    std::memcpy(out.data, from, static_cast<size_t>(out.n_elements()) * 4);
    return out;
  }
  Ops& ops_;
  std::vector<Buffer> buffers_;
};

using Body = std::vector<float> (*)(Bench& bench);

std::vector<float> values(const Tensor& t) {
  std::vector<float> out;
  for (int64_t r = 0; r < t.dim(0); ++r) out.insert(out.end(), t.row<float>(r), t.row<float>(r) + t.dim(1));
  return out;
}

std::vector<float> on_cpu(Body body) {
  const auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = "scalar", .pin = false});
  Bench bench(**ops);
  return body(bench);
}

std::vector<float> on_cuda(Body body, const cuda::FakeOptions& options) {
  const auto ops = cuda::CudaOps::make(cuda::make_fake_runtime(options));
  Bench bench(**ops);
  return body(bench);
}

// By way of the driver's calls, on a driver for tests.
std::vector<float> on_driver(Body body) {
  const auto runtime = cuda::open_driver_runtime(
      {.library = cuda::fake_libcuda_path(), .image = std::as_bytes(std::span(cuda::kFakeImage))});
  const auto ops = cuda::CudaOps::make(*runtime);
  Bench bench(**ops);
  return body(bench);
}

void expect_same(Body body) {
  const std::vector<float> truth = on_cpu(body);
  ASSERT_TRUE(same_bits(truth, on_driver(body)));
  for (const uint64_t seed : {0, 1, 2})
    ASSERT_TRUE(same_bits(truth, on_cuda(body, {.seed = seed}))) << "order " << seed;
}

std::vector<float> product(Bench& bench, int64_t n, int64_t n_in, int64_t n_out) {
  const Linear parts[] = {bench.matrix(n_out, n_in, 1, n % 2 == 1), bench.matrix(7, n_in, 3)};
  const Tensor y = bench.floats(Matrix(n, n_out + 7));
  bench.ops().linear(y, bench.floats(Matrix(n, n_in, 2)), parts);
  return values(y);
}

std::vector<float> one_product(Bench& bench) { return product(bench, 17, 640, 100); }

TEST(Cuda, LinearHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return product(bench, 1, 32, 1); });
  expect_same([](Bench& bench) { return product(bench, 5, 256, 64); });
  expect_same([](Bench& bench) { return product(bench, 16, 768, 65); });
  expect_same([](Bench& bench) { return product(bench, 33, 96, 130); });
  expect_same(one_product);
}

// Parts of several formats, one of them floats; n_in need not be whole blocks where all are.
std::vector<float> product_of_floats(Bench& bench, std::string_view format, int64_t n, int64_t n_in, int64_t n_out) {
  std::vector<Linear> parts = {bench.matrix(n_out, n_in, 1, n % 2 == 1, format),
                               bench.matrix(7, n_in, 3, false, "f32")};
  if (n_in % 32 == 0) parts.push_back(bench.matrix(5, n_in, 5));
  const int64_t wide = n_out + 7 + (n_in % 32 == 0 ? 5 : 0);
  const Tensor y = bench.floats(Matrix(n, wide)), embedded = bench.floats(Matrix(3, n_in));
  const Tensor x = bench.floats(Matrix(n, n_in + 3, 2));
  bench.ops().linear(y, x.columns(2, n_in), parts);
  bench.ops().embed(embedded, bench.ints({static_cast<int32_t>(n_out) - 1, 0, 1}), parts.front());
  std::vector<float> out = values(y);
  std::ranges::copy(values(embedded), std::back_inserter(out));
  return out;
}

TEST(Cuda, LinearOfFloatsHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return product_of_floats(bench, "f32", 1, 32, 2); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "f32", 17, 333, 70); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "f16", 5, 15, 64); });
  expect_same([](Bench& bench) { return product_of_floats(bench, "f16", 33, 544, 65); });
}

// Every integer format, beside others in one product, and its rows.
std::vector<float> products_of_integers(Bench& bench) {
  std::vector<float> out;
  for (const WeightFormat* format : weight_formats()) {
    if (!format->integer) continue;
    const int64_t n_in = format->block > 32 ? 768 : 352;
    const Linear parts[] = {bench.any_matrix(*format, 66, n_in, 1), bench.matrix(3, n_in, 3),
                            bench.matrix(5, n_in, 5, true, "f32")};
    const Tensor y = bench.floats(Matrix(17, 74)), embedded = bench.floats(Matrix(3, n_in));
    bench.ops().linear(y, bench.floats(Matrix(17, n_in, 2)), parts);
    bench.ops().embed(embedded, bench.ints({65, 0, 1}), parts[0]);
    for (const Tensor& t : {y, embedded}) std::ranges::copy(values(t), std::back_inserter(out));
  }
  return out;
}

TEST(Cuda, LinearOfEveryIntegerFormatHasTheBitsOfTheCpu) { expect_same(products_of_integers); }

TEST(Cuda, LinearOfTinyAndOfBadNumbers) {
  const Body body = [](Bench& bench) {
    Matrix x(3, 64, 2);
    for (size_t i = 0; i < 32; ++i) x.values[i] *= 0x1p-121F;
    x.values[64 + 3] = INFINITY;
    const Linear w = bench.matrix(16, 64, 1);
    const Tensor y = bench.floats(Matrix(3, 16));
    bench.ops().linear(y, bench.floats(x), {&w, 1});
    return values(y);
  };
  const std::vector<float> truth = on_cpu(body), got = on_cuda(body, {});
  for (size_t i = 0; i < truth.size(); ++i) {
    const bool is_bad = i / 16 == 1;
    EXPECT_EQ(std::isnan(truth[i]), is_bad) << i;
    EXPECT_EQ(std::isnan(got[i]), is_bad) << i;
    if (is_bad) continue;
    EXPECT_EQ(std::bit_cast<uint32_t>(truth[i]), std::bit_cast<uint32_t>(got[i])) << i;
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
    std::vector<float> out = values(y);
    for (const Tensor& t : {x, z, picked, embedded}) std::ranges::copy(values(t), std::back_inserter(out));
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
    std::vector<float> out = values(y);
    for (const Tensor& t : {x, z}) std::ranges::copy(values(t), std::back_inserter(out));
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
        std::ranges::copy(values(y), std::back_inserter(out));
        if (act == Activation::clamped_silu) continue;
        bench.ops().gated(y, gate, Tensor{}, act);
        std::ranges::copy(values(y), std::back_inserter(out));
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
    return values(y);
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
  return values(x);
}

TEST(Cuda, RopeHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return turned(bench, RopePairs::halves); });
  expect_same([](Bench& bench) { return turned(bench, RopePairs::interleaved); });
}

struct Attending {
  int n_heads, n_kv_heads, dim;
  std::vector<int> past, fresh;
  int window = 0;
  float soft_cap = 0;
  bool has_sinks = false;
  std::string_view codec = "f16";
};

// As in attention_test.cc: what no row may see is NaN.
std::vector<float> attended(Bench& bench, const Attending& c) {
  constexpr int kTokens = 32;
  const KvCodec& codec = *find_kv_codec(c.codec);
  const int64_t token_bytes = c.n_kv_heads * (codec.k_row_bytes(c.dim) + codec.v_row_bytes(c.dim));
  const int64_t offset = 64, block_bytes = (offset + token_bytes) * kTokens;
  const auto n_seqs = static_cast<int32_t>(c.past.size());
  int32_t max_blocks = 1;
  for (size_t s = 0; s < c.past.size(); ++s) max_blocks = std::max(max_blocks, (c.past[s] + c.fresh[s]) / kTokens + 1);
  KvView view;
  view.n_groups = 1;
  view.groups[0] = {bench.bytes(n_seqs * max_blocks * block_bytes, 0xff), block_bytes, kTokens};
  AttnParams params{.kv_offset = offset, .k_codec = &codec, .v_codec = &codec};
  params.n_heads = c.n_heads;
  params.n_kv_heads = c.n_kv_heads;
  params.k_dim = params.v_dim = c.dim;
  params.scale = 0.125F;
  params.soft_cap = c.soft_cap;
  params.window = c.window;
  if (c.has_sinks) params.sinks = bench.vector(c.n_heads, 9);
  std::vector<int32_t> blocks, cu_q = {0}, first, end;
  for (int32_t i = 0; i < n_seqs * max_blocks; ++i) {
    blocks.push_back((max_blocks - 1 - i % max_blocks) * n_seqs + i / max_blocks);
  }
  for (int32_t s = 0; s < n_seqs; ++s) {
    const int past = c.past[static_cast<size_t>(s)], total = past + c.fresh[static_cast<size_t>(s)];
    std::vector<int32_t> slots;
    for (int t = 0; t < total; ++t) {
      slots.push_back(blocks[static_cast<size_t>(int64_t{s} * max_blocks + t / kTokens)] * kTokens + t % kTokens);
      if (t >= past) end.push_back(t + 1);
    }
    const auto seed = static_cast<uint64_t>(s);
    bench.ops().kv_write(bench.floats(Matrix(total, c.n_kv_heads * c.dim, 100 + seed)),
                         bench.floats(Matrix(total, c.n_kv_heads * c.dim, 200 + seed)), bench.ints(slots), view,
                         params);
    cu_q.push_back(static_cast<int32_t>(end.size()));
  }
  first.assign(end.size(), 0);
  const auto n = static_cast<int64_t>(end.size());
  const Tensor out = bench.floats(Matrix(n, c.n_heads * c.dim));
  Tensor table = bench.ints(blocks);
  table = Tensor::dense(table.data, DType::i32, {n_seqs, max_blocks});
  const AttnMeta meta{bench.ints(cu_q), {table}, bench.ints(first), bench.ints(end)};
  bench.ops().attend(out, bench.floats(Matrix(n, c.n_heads * c.dim, 300)), view, meta, params);
  return values(out);
}

std::vector<float> one_product_of_halves(Bench& bench) { return product_of_floats(bench, "f16", 17, 320, 70); }
// Scale groups of 16 and of 32 with mins.
std::vector<float> one_product_with_mins(Bench& bench) {
  const Linear parts[] = {bench.matrix(70, 768, 1, true, "q2_k"), bench.matrix(5, 768, 3, false, "q4_k")};
  const Tensor y = bench.floats(Matrix(17, 75));
  bench.ops().linear(y, bench.floats(Matrix(17, 768, 2)), parts);
  return values(y);
}
std::vector<float> one_attention(Bench& bench) { return attended(bench, {4, 2, 16, {300, 0}, {1, 3}}); }
std::vector<float> one_attention_of_q8(Bench& bench) {
  return attended(bench, {4, 2, 16, {300, 0}, {1, 3}, 0, 0, false, "q8"});
}

TEST(Cuda, AttentionHasTheBitsOfTheCpu) {
  expect_same(one_attention);
  expect_same([](Bench& bench) { return attended(bench, {1, 1, 16, {0}, {1}}); });
  expect_same([](Bench& bench) { return attended(bench, {8, 2, 64, {255, 256, 15}, {1, 1, 4}}); });
  expect_same([](Bench& bench) { return attended(bench, {7, 1, 80, {300}, {9}}); });
  expect_same([](Bench& bench) { return attended(bench, {3, 3, 15, {600, 40}, {2, 30}, 20}); });
  expect_same([](Bench& bench) { return attended(bench, {6, 2, 24, {530}, {3}, 300, 2.0F, true}); });
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

// Whether a body with a planted fault is told by the emulator, or by its bits.
struct Noticed {
  std::string fault;
  bool differs;
};
Noticed noticed(Body body, emulated::Mutation mutation) {
  std::string fault;
  const std::vector<float> got = on_cuda(body, {.seed = 3, .mutation = mutation, .fault = &fault});
  return {fault, !same_bits(on_cpu(body), got)};
}

TEST(CudaMutants, NoneIsNoticedWhereNothingIsPlanted) {
  for (const Body body :
       {one_product, one_product_with_mins, one_product_of_halves, one_attention, one_attention_of_q8}) {
    const auto [fault, differs] = noticed(body, {});
    EXPECT_EQ(fault, "");
    EXPECT_FALSE(differs);
  }
}

TEST(CudaMutants, EachBarrierIsNeeded) {
  using enum emulated::Mutation::Kind;
  for (int nth = 0; nth < 2; ++nth) {  // of LinearInteger, whose weights packed.cuh reads
    for (const Body body : {one_product, one_product_with_mins}) {
      const std::string fault = noticed(body, {no_barrier, nth}).fault;
      const bool is_told =
          fault.find("linear_integer.cuh:") != std::string::npos || fault.find("packed.cuh:") != std::string::npos;
      EXPECT_TRUE(is_told) << nth << fault;
    }
  }
  for (int nth = 0; nth < 2; ++nth) {  // of LinearFloat
    const Noticed product = noticed(one_product_of_halves, {no_barrier, nth});
    EXPECT_NE(product.fault.find("linear_float.cuh:"), std::string::npos) << nth << product.fault;
  }
  for (int nth = 0; nth < 3; ++nth) {  // of AttendChunk
    const Noticed attention = noticed(one_attention, {no_barrier, nth});
    EXPECT_NE(attention.fault.find("attention.cuh:"), std::string::npos) << nth << attention.fault;
  }
  for (int nth = 0; nth < 5; ++nth) {  // of CacheRowsQ8, a rotation in both, and AttendChunk
    const std::string fault = noticed(one_attention_of_q8, {no_barrier, nth}).fault;
    const bool is_told =
        fault.find("attention.cuh:") != std::string::npos || fault.find("cache.cuh:") != std::string::npos;
    EXPECT_TRUE(is_told) << nth << fault;
  }
}

TEST(CudaMutants, CopiesAreWaitedFor) {
  using enum emulated::Mutation::Kind;
  for (const auto kind : {no_wait, late_wait}) {
    for (const Body body : {one_product, one_product_with_mins, one_product_of_halves}) {
      const Noticed product = noticed(body, {kind});
      EXPECT_NE(product.fault.find("nobody waited"), std::string::npos) << product.fault;
    }
  }
}

TEST(CudaMutants, LanesAreTheRightOnes) {
  using enum emulated::Mutation::Kind;
  EXPECT_TRUE(noticed(one_product, {wrong_lane, 0}).differs);  // the largest of a group
  for (int nth = 1; nth < 3; ++nth) {                          // of the sums of halves of a group, and of both
    EXPECT_TRUE(noticed(one_product_with_mins, {wrong_lane, nth}).differs) << nth;
  }
  EXPECT_TRUE(noticed(one_attention, {wrong_lane, 1}).differs);  // the first step of a fold
}

}  // namespace
}  // namespace quire
