// The emulated device for the tests of the CUDA backend, by way of a driver too; and the suite against itself: faults
// that are planted in the kernels are noticed.
#include "backend/cuda/driver/runtime_cuda.h"
#include "backend/cuda/emulated/fake_libcuda.h"
#include "backend/cuda/emulated/runtime_fake.h"
#include "tests/parity/cuda_corpus.h"

namespace quire {

static std::vector<float> on_cuda(Body body, const cuda::FakeOptions& options) {
  const auto ops = cuda::CudaOps::make(cuda::make_fake_runtime(options), cpu_sample_kernels());
  Bench bench(**ops);
  return body(bench);
}

// By way of the driver's calls, on a driver for tests.
static std::vector<float> on_driver(Body body) {
  const auto runtime = cuda::open_driver_runtime(
      {.library = cuda::fake_libcuda_path(), .image = std::as_bytes(std::span(cuda::kFakeImage))});
  const auto ops = cuda::CudaOps::make(*runtime, cpu_sample_kernels());
  Bench bench(**ops);
  return body(bench);
}

std::vector<std::vector<float>> in_tensor_arithmetic(Body body) {
  std::vector<std::vector<float>> out;
  const auto driver = cuda::open_driver_runtime(
      {.library = cuda::fake_libcuda_path(), .image = std::as_bytes(std::span(cuda::kFakeImage))});
  for (const auto& runtime : {*driver, cuda::make_fake_runtime({.seed = 1})}) {
    const auto ops = cuda::CudaOps::make(runtime, cpu_sample_kernels(), CudaArithmetic::tensor);
    Bench bench(**ops);
    out.push_back(body(bench));
  }
  return out;
}

std::vector<std::vector<float>> on_devices(Body body) {
  std::vector<std::vector<float>> out = {on_driver(body)};
  for (const uint64_t seed : {0, 1, 2}) out.push_back(on_cuda(body, {.seed = seed}));
  return out;
}

namespace {

TEST(Cuda, ADeviceWithLittleSharedMemoryDoesManyRowsSomeAtATime) {
  const Body body = one_product_of_many_rows;
  EXPECT_TRUE(same_bits(on_cpu(body), on_cuda(body, {.shared_bytes = 99 << 10})));
}

std::vector<float> products_of_eight_rows(Bench& bench) {
  std::vector<float> out;
  for (const char* name : {"q8_0", "q4_k", "iq2_xxs"}) {
    const WeightFormat& format = *find_weight_format(name);
    for (const int64_t n : {1, 8}) {
      const Linear w = bench.any_matrix(format, 40, 1792, 3);
      const Tensor y = bench.floats(Matrix(n, 40)), x = bench.floats(Matrix(n, 1792, 4));
      bench.ops().linear(y, x, {&w, 1});
      std::ranges::copy(bench.values(y), std::back_inserter(out));
    }
  }
  return out;
}

TEST(Cuda, ADeviceWithLittleSharedMemoryStreamsWeightsForFewRowsToo) {
  const Body body = products_of_eight_rows;
  EXPECT_TRUE(same_bits(on_cpu(body), on_cuda(body, {.shared_bytes = cuda::kLeastShared})));
  const cuda::DeviceSize little{.shared_bytes = cuda::kLeastShared}, more{.shared_bytes = 227 << 10};
  const auto launch = [](const char* format, const cuda::DeviceSize& device) {
    cuda::FewProduct product{};
    product.n = 8;
    return cuda::find_integer_format(*find_weight_format(format))->multiply_few(product, {1}, device);
  };
  EXPECT_STREQ(launch("q8_0", little).name, "quire_linear8_small_q8_0");
  EXPECT_STREQ(launch("q8_0", more).name, "quire_linear8_q8_0");
  for (const char* name : {"q8_0", "q5_0", "q3_k", "q4_k", "q4_z32", "iq2_xxs", "iq2_xs", "iq1_s", "iq1_m", "q4_0"})
    EXPECT_LE(launch(name, little).shared_bytes, cuda::kLeastShared) << name;
}

// Many rows: in tiles of smaller rings, and of f32 and of wide heads one by one.
template <bool kIsWide>
std::vector<float> attention_of_many_rows(Bench& bench) {
  std::vector<float> out;
  for (const std::string_view codec : {"f16", "bf16", "f32"}) {
    if (kIsWide && codec == "f32") continue;
    const int dim = kIsWide ? 272 : 32;
    std::ranges::copy(attended(bench, {4, 2, dim, {30, 0}, {9, 12}, 0, 0, false, codec}), std::back_inserter(out));
  }
  return out;
}

TEST(Cuda, ADeviceWithLittleSharedMemoryAttendsToManyRows) {
  for (const Body body : {attention_of_many_rows<false>, attention_of_many_rows<true>}) {
    EXPECT_TRUE(same_bits(on_cpu(body), on_cuda(body, {.shared_bytes = 99 << 10})));
  }
}

TEST(Cuda, HeadsThatADevicesSharedMemoryCannotHoldAreRefused) {
  const auto refusal = [](std::string_view codec, int k_dim, bool values_in_keys, int shared_bytes) {
    AttnParams layer{.k_codec = find_kv_codec(codec), .v_codec = find_kv_codec(codec)};
    layer.k_dim = k_dim;
    layer.v_dim = 64;
    layer.values_in_keys = values_in_keys;
    const Status fits = cuda::check_room(layer, {.shared_bytes = shared_bytes});
    return fits ? "" : fits.error().message;
  };
  EXPECT_EQ(refusal("f32", 320, false, 99 << 10),
            "the cuda backend: heads of 320 components in a cache of --kv-type f32 take 157088 bytes of shared memory, "
            "the device has 101376");
  EXPECT_NE(refusal("f32", 128, true, 99 << 10), "");
  EXPECT_EQ(refusal("f32", 320, false, 227 << 10), "");
  for (const std::string_view codec : {"f16", "bf16", "q8", "f8", "q4", "k8v4"}) {
    EXPECT_EQ(refusal(codec, 576, codec != "k8v4", 99 << 10), "");
  }
  EXPECT_EQ(refusal("f32", 256, false, 99 << 10), "");
}

std::vector<float> one_low_rank(Bench& bench) {
  OneLayer layer;
  layer.add(bench.ops(), &AdapterLayer::qkv, {{96, 20}}, 5);
  const Tensor y = bench.floats(Matrix(6, 20, 1)), x = bench.floats(Matrix(6, 96, 2));
  const std::vector<AdapterRows> rows = layer.rows(6);
  bench.ops().add_low_rank(y, x, {rows, 0, &AdapterLayer::qkv});
  return bench.values(y);
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
  for (const Body body : {one_product, one_product_of_many_rows, one_product_with_mins, one_product_of_halves,
                          one_attention, one_attention_of_q8, one_attention_of_q4, one_pick, one_low_rank}) {
    const auto [fault, differs] = noticed(body, {});
    EXPECT_EQ(fault, "");
    EXPECT_FALSE(differs);
  }
}

TEST(CudaMutants, EachBarrierIsNeeded) {
  using enum emulated::Mutation::Kind;
  for (const Body body : {one_product, one_product_of_many_rows, one_product_with_mins}) {  // of LinearInteger
    const std::string fault = noticed(body, {no_barrier, 0}).fault;
    const bool is_told =
        fault.find("linear_integer.cuh:") != std::string::npos || fault.find("packed.cuh:") != std::string::npos;
    EXPECT_TRUE(is_told) << fault;  // packed.cuh reads its weights
  }
  for (int nth = 0; nth < 2; ++nth) {  // of LinearFloat
    const Noticed product = noticed(one_product_of_halves, {no_barrier, nth});
    EXPECT_NE(product.fault.find("linear_float.cuh:"), std::string::npos) << nth << product.fault;
  }
  EXPECT_NE(noticed(one_low_rank, {no_barrier, 0}).fault.find("low_rank.cuh:"), std::string::npos);
  for (int nth = 0; nth < 9; ++nth) {  // of a pick
    EXPECT_NE(noticed(one_pick, {no_barrier, nth}).fault.find("pick.cuh:"), std::string::npos) << nth;
  }
  const auto is_of_attention = [](const std::string& fault) {
    return fault.find("attention.cuh:") != std::string::npos || fault.find("cache.cuh:") != std::string::npos;
  };
  for (int nth = 0; nth < 5; ++nth) {  // of AttendRow, then between tiles, of AttendRows
    const std::string fault = noticed(one_attention, {no_barrier, nth}).fault;
    EXPECT_TRUE(is_of_attention(fault)) << nth << fault;
  }
  for (int nth = 0; nth < 8; ++nth) {  // of CacheRows, a rotation in both, and AttendRow
    for (const Body body : {one_attention_of_q8, one_attention_of_q4}) {
      const std::string fault = noticed(body, {no_barrier, nth}).fault;
      EXPECT_TRUE(is_of_attention(fault)) << nth << fault;
    }
  }
}

TEST(CudaMutants, CopiesAreWaitedFor) {
  using enum emulated::Mutation::Kind;
  for (const auto kind : {no_wait, late_wait}) {
    for (const Body body :
         {one_product, one_product_of_many_rows, one_product_with_mins, one_product_of_halves, one_attention}) {
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
  EXPECT_TRUE(noticed(one_pick, {wrong_lane, 0}).differs);
  EXPECT_TRUE(noticed(one_attention, {wrong_lane, 1}).differs);  // the first step of a fold
}

}  // namespace
}  // namespace quire
