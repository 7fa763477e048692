// Products in tensor arithmetic: each number is the twin's sum over all k in order, whatever rows and outputs are
// beside it and whether mma or wgmma makes it; what is planted in the kernels is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cuda/backend.h"
#include "backend/cuda/emulated/runtime_fake.h"
#include "backend/cuda/emulated/tensor_core.h"
#include "backend/cuda/tensor_launches.h"
#include "base/rng.h"
#include "quant/f16.h"

namespace quire::cuda {
namespace {

struct Shape {
  int64_t n, n_in, n_out;
  bool has_bias = false;
};

// A matrix of BF16, rows, and a bias. Row r is the same in every shape of that n_in.
struct Product {
  explicit Product(const Shape& s) : shape(s) {
    Rng of_w(1), of_x(2);
    for (int64_t i = 0; i < s.n_out * s.n_in; ++i) w.push_back(f32_to_bf16(of_w.normal()));
    for (int64_t i = 0; i < s.n * s.n_in; ++i) {
      x.push_back(std::ldexp(of_x.normal(), static_cast<int>(of_x.between(-12, 2))));
    }
    for (int64_t i = 0; i < s.n_out && s.has_bias; ++i) bias.push_back(of_w.normal());
  }
  // As mma makes it, 16 k after 16, of rows rounded to BF16.
  std::vector<float> expected() const {
    const auto depth = static_cast<size_t>((shape.n_in + 31) / 32 * 32), n_in = static_cast<size_t>(shape.n_in);
    std::vector<float> out;
    for (size_t r = 0; r < static_cast<size_t>(shape.n); ++r) {
      std::vector<uint16_t> row(depth), weights(depth);
      for (size_t k = 0; k < n_in; ++k) row[k] = f32_to_bf16_flushed(x[r * n_in + k]);
      for (size_t o = 0; o < static_cast<size_t>(shape.n_out); ++o) {
        std::copy_n(w.begin() + static_cast<std::ptrdiff_t>(o * n_in), n_in, weights.begin());
        uint32_t sum = 0;
        for (size_t k = 0; k < depth; k += 16) {
          sum = emulated::sum_of_products(emulated::kHopperCore, weights.data() + k, row.data() + k, 16, sum);
        }
        out.push_back(bias.empty() ? std::bit_cast<float>(sum) : std::bit_cast<float>(sum) + bias[o]);
      }
    }
    return out;
  }
  // What float64 makes of the rows and weights as they are, and the sum of the products' magnitudes.
  std::pair<double, double> truth(size_t r, size_t o) const {
    double sum = bias.empty() ? 0.0 : static_cast<double>(bias[o]), most = std::fabs(sum);
    for (size_t k = 0; k < static_cast<size_t>(shape.n_in); ++k) {
      const double one = static_cast<double>(x[r * static_cast<size_t>(shape.n_in) + k]) *
                         static_cast<double>(bf16_to_f32(w[o * static_cast<size_t>(shape.n_in) + k]));
      sum += one;
      most += std::fabs(one);
    }
    return {sum, most};
  }

  Shape shape;
  std::vector<uint16_t> w;
  std::vector<float> x, bias;
};

class Device {
 public:
  explicit Device(const FakeOptions& options, CudaArithmetic arithmetic = CudaArithmetic::tensor)
      : ops_(*CudaOps::make(make_fake_runtime(options), plain_sample_kernels(), arithmetic)) {}
  Ops& ops() { return *ops_; }

  Linear load(const Product& p) {
    const HostWeight w{.name = "w",
                       .format = find_weight_format("bf16"),
                       .shape = {p.shape.n_out, p.shape.n_in},
                       .data = std::as_bytes(std::span(p.w))};
    const HostWeight bias{.name = "b",
                          .format = find_weight_format("f32"),
                          .shape = {p.shape.n_out},
                          .data = std::as_bytes(std::span(p.bias))};
    return *ops_->load_linear(w, p.bias.empty() ? nullptr : &bias, Shard{});
  }
  Tensor rows(const std::vector<float>& values, int64_t n, int64_t d) {
    buffers_.push_back(*ops_->allocate(std::max<int64_t>(n * d, 1) * 4));
    std::ranges::copy(values, reinterpret_cast<float*>(buffers_.back().data()));
    return Tensor::dense(buffers_.back().data(), DType::f32, {n, d});
  }
  std::vector<float> multiplied(const Product& p) {
    const Linear part = load(p);
    const Tensor x = rows(p.x, p.shape.n, p.shape.n_in), y = rows({}, p.shape.n, p.shape.n_out);
    ops_->linear(y, x, {&part, 1});
    ops_->finish();
    return {y.ptr<float>(), y.ptr<float>() + p.shape.n * p.shape.n_out};
  }

 private:
  std::unique_ptr<Ops> ops_;
  std::vector<Buffer> buffers_;
};

bool have_same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
}

// Tiles of few rows and of many, with ends within a panel, a stage and a tile.
constexpr Shape kShapes[] = {{1, 15, 1},    {1, 544, 70, true},  {17, 40, 33},
                             {64, 160, 65}, {65, 96, 130, true}, {130, 333, 64}};
// For wgmma: rings that go round and that do not, tiles of both sizes.
constexpr Shape kManyRows[] = {{65, 16, 1},     {66, 640, 129, true}, {128, 75, 65},
                               {129, 330, 200}, {257, 64, 9, true},   {512, 270, 137, true}};

// Without wgmma, and with it.
constexpr int kMajors[] = {10, 9};

TEST(CudaTensor, ProductsAreTheTwinsSumsInOrder) {
  for (const int major : kMajors) {
    for (const uint64_t seed : {0, 1}) {
      Device device({.seed = seed, .major = major});
      for (const Shape& shape : kShapes) {
        const Product product(shape);
        EXPECT_TRUE(have_same_bits(product.expected(), device.multiplied(product))) << shape.n << ' ' << shape.n_in;
      }
    }
  }
}

TEST(CudaTensor, ProductsOfManyRowsAreTheTwinsSumsInOrder) {
  for (const int major : kMajors) {
    Device device({.seed = 2, .major = major});
    for (const Shape& shape : kManyRows) {
      const Product product(shape);
      EXPECT_TRUE(have_same_bits(product.expected(), device.multiplied(product))) << shape.n << ' ' << shape.n_in;
    }
  }
}

// Where the larger tile would leave multiprocessors without work.
TEST(CudaTensor, ManyRowsGoBySmallerTilesOnALargeDevice) {
  Device device({.seed = 3, .n_multiprocessors = 132});
  const Product product({300, 64, 9, true});
  EXPECT_TRUE(have_same_bits(product.expected(), device.multiplied(product)));
}

TEST(CudaTensor, ProductsAreNearTheTruth) {
  Device device({});
  for (const Shape& shape : kShapes) {
    const Product product(shape);
    const std::vector<float> got = device.multiplied(product);
    const int64_t n_sums = shape.n_in / 16 + 2;
    for (size_t i = 0; i < got.size(); ++i) {
      const auto [truth, most] =
          product.truth(i / static_cast<size_t>(shape.n_out), i % static_cast<size_t>(shape.n_out));
      // Rounded rows; then the last bit of a sum is lost with every 16 k.
      ASSERT_NEAR(got[i], truth, most * (0x1p-8 + static_cast<double>(n_sums) * 0x1p-22)) << i;
    }
  }
}

TEST(CudaTensor, ARowHasTheSameBitsAloneAndAmongMany) {
  constexpr int64_t kIn = 352, kOut = 96;
  for (const int major : kMajors) {
    Device device({.major = major});
    const std::vector<float> all = device.multiplied(Product({512, kIn, kOut}));
    for (const int64_t n : {1, 16, 33, 65, 80, 128, 129, 300}) {
      const std::vector<float> some = device.multiplied(Product({n, kIn, kOut}));
      EXPECT_TRUE(have_same_bits(some, std::span(all).first(static_cast<size_t>(n * kOut)))) << n;
    }
  }
}

TEST(CudaTensor, RowsWithBadAndWithTinyNumbersHaveTheTwinsBits) {
  Product product({70, 64, 40});
  product.x[3] = INFINITY;
  product.x[64 + 7] = NAN;
  for (size_t k = 0; k < 64; ++k) product.x[128 + k] *= 0x1p-125F;
  for (size_t k = 0; k < 64; ++k) product.x[192 + k] = k % 2 == 0 ? 3e38F : -3e38F;
  for (const int major : kMajors) {
    EXPECT_TRUE(have_same_bits(product.expected(), Device({.major = major}).multiplied(product)));
  }
}

// Tables lie as products want them.
TEST(CudaTensor, EmbeddedRowsAreTheWeights) {
  const Product product({1, 75, 131});
  Device device({});
  const Linear table = device.load(product);
  const Buffer ids = *device.ops().allocate_arena(3 * 4);
  const std::vector<int32_t> wanted = {130, 0, 65};
  std::memcpy(ids.data(), wanted.data(), 12);
  const Tensor y = device.rows({}, 3, 75);
  device.ops().embed(y, Tensor::dense(ids.data(), DType::i32, {3}), table);
  device.ops().finish();
  for (int64_t i = 0; i < 3 * 75; ++i) {
    const auto at = static_cast<size_t>(wanted[static_cast<size_t>(i / 75)] * 75 + i % 75);
    ASSERT_EQ(y.ptr<float>()[i], bf16_to_f32(product.w[at])) << i;
  }
}

TEST(CudaTensor, ItsBitsHaveANumberOfTheirOwn) {
  EXPECT_EQ(Device({}, CudaArithmetic::portable).ops().numerics(), kNumericsVersion);
  EXPECT_NE(Device({}).ops().numerics(), kNumericsVersion);
}

TEST(CudaTensor, ABarrierLessAndAWaitLessAreTold) {
  using enum emulated::Mutation::Kind;
  for (const Shape& shape : {Shape{1, 1024, 32}, Shape{65, 320, 128}}) {
    const Product product(shape);
    for (const auto kind : {no_barrier, no_wait, late_wait}) {
      std::string fault;
      const std::vector<float> got =
          Device({.seed = 3, .major = 10, .mutation = {kind}, .fault = &fault}).multiplied(product);
      EXPECT_NE(fault.find("linear_tensor.cuh:"), std::string::npos) << static_cast<int>(kind) << fault;
      EXPECT_EQ(fault.find("nobody waited") == std::string::npos, kind == no_barrier) << fault;
    }
  }
}

// What the ring of a tile of wgmma does with a planted fault; its numbers are zeros.
template <class Kernel>
std::string fault_of(emulated::Mutation mutation, uint64_t seed) {
  constexpr int kBlocks = Kernel::kStages + 3, kOut = Kernel::kOutputs, kIn = kBlocks * TensorPanels::kDepth;
  std::string fault;
  const auto runtime = make_fake_runtime({.seed = seed, .mutation = mutation, .fault = &fault});
  const auto room = [&](int64_t bytes) { return *runtime->allocate(bytes, Place::device); };
  const TensorProduct product{.w = reinterpret_cast<const uint16_t*>(room(int64_t{kOut} * kIn * 2)),
                              .bias = nullptr,
                              .x = reinterpret_cast<const uint16_t*>(room(int64_t{Kernel::kRows} * kIn * 2)),
                              .y = {reinterpret_cast<float*>(room(int64_t{kOut} * Kernel::kRows * 4)), kOut},
                              .n = Kernel::kRows,
                              .n_out = kOut,
                              .n_blocks = kBlocks,
                              .batch = 0};
  launch_tensor<Kernel>(*runtime, product);
  runtime->wait();
  return fault;
}

TEST(CudaTensor, FaultsInTheRingOfWgmmaAreTold) {
  using enum emulated::Mutation::Kind;
  // Of waits for a phase there are the producer's and the consumers', of fences one for barriers and one for sums.
  const std::vector<emulated::Mutation> mutations = {
      {no_barrier},     {no_wait},        {late_wait},      {no_phase_wait, 0}, {no_phase_wait, 1}, {wrong_phase, 0},
      {wrong_phase, 1}, {wrong_stage, 0}, {wrong_stage, 1}, {no_fence, 0},      {no_fence, 1}};
  for (const uint64_t seed : {0, 1, 2}) {
    EXPECT_EQ(fault_of<LinearWgmmaSome>({}, seed), "");
    EXPECT_EQ(fault_of<LinearWgmmaMany>({}, seed), "");
    for (const emulated::Mutation& mutation : mutations) {
      for (const std::string& fault :
           {fault_of<LinearWgmmaSome>(mutation, seed), fault_of<LinearWgmmaMany>(mutation, seed)}) {
        const bool is_told = fault.find("linear_wgmma.cuh:") == 0 || fault.find("deadlock") != std::string::npos;
        EXPECT_TRUE(is_told) << static_cast<int>(mutation.kind) << ' ' << mutation.nth << fault;
      }
    }
  }
}

// A device whose wgmma sums otherwise would give a row other bits among many.
TEST(CudaTensor, WgmmaIsTakenWhereItsSumsAreThoseOfMma) {
  const auto takes = [](const FakeOptions& options) {
    return Device(options).ops().describe().find("with wgmma") != std::string::npos;
  };
  EXPECT_TRUE(takes({}));
  EXPECT_FALSE(takes({.shared_bytes = 99 << 10}));
  for (const int major : {8, 10}) EXPECT_FALSE(takes({.major = major}));
  const emulated::Mutation otherwise = {emulated::Mutation::Kind::other_sums};
  EXPECT_FALSE(takes({.mutation = otherwise}));
  const Product product({130, 80, 40});
  EXPECT_TRUE(have_same_bits(product.expected(), Device({.mutation = otherwise}).multiplied(product)));
}

}  // namespace
}  // namespace quire::cuda
