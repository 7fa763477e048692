// The model of a tensor core, on sums whose result its description alone tells.
#include "backend/cuda/emulated/tensor_core.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace quire::emulated {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Factors {
  float a = 0, b = 0;
};

uint16_t bf16(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }

// The sum of such products and c; what is missing to 16 products is zeros.
uint32_t bits_of(const TensorCore& core, const std::vector<Factors>& products, float c) {
  uint16_t a[16] = {}, b[16] = {};
  for (size_t i = 0; i < products.size(); ++i) {
    a[i] = bf16(products[i].a);
    b[i] = bf16(products[i].b);
  }
  return sum_of_products(core, a, b, 16, std::bit_cast<uint32_t>(c));
}
float sum_of(const TensorCore& core, const std::vector<Factors>& products, float c) {
  return std::bit_cast<float>(bits_of(core, products, c));
}

TEST(TensorCore, SumsThatFitAreExact) {
  for (const TensorCore& core : {kHopperCore, kAmpereCore}) {
    EXPECT_EQ(sum_of(core, {{2, 3}, {-1, 0.5F}, {16, 16}}, 0.25F), 261.75F);
    EXPECT_EQ(sum_of(core, std::vector<Factors>(16, {3, -5}), 1), -239);
    EXPECT_EQ(sum_of(core, {{1, 1}, {-1, 1}}, 0), 0);
  }
}

// The term of 1 sets where bits are cut off, although it cancels: 25 bits below on Hopper, 24 on Ampere.
TEST(TensorCore, BitsBelowTheLargestTermsAreCutOff) {
  const auto left = [](const TensorCore& core, int exponent) {
    return sum_of(core, {{1, 1}, {-1, 1}, {std::ldexp(1.0F, exponent), 1}}, 0);
  };
  EXPECT_EQ(left(kHopperCore, -25), std::ldexp(1.0F, -25));
  EXPECT_EQ(left(kHopperCore, -26), 0);
  EXPECT_EQ(left(kAmpereCore, -24), std::ldexp(1.0F, -24));
  EXPECT_EQ(left(kAmpereCore, -25), 0);
}

TEST(TensorCore, TermsAreCutOffTowardsZeroEachByItself) {
  const float small = std::ldexp(1.75F, -25);
  EXPECT_EQ(sum_of(kHopperCore, {{1, 1}, {-1, 1}, {small, 1}, {small, 1}}, 0), std::ldexp(1.0F, -24));
  EXPECT_EQ(sum_of(kHopperCore, {{1, 1}, {-1, 1}, {small, -1}, {small, 1}}, 0), 0);
  EXPECT_EQ(sum_of(kHopperCore, {{1, 1}, {-1, 1}, {small, -1}}, 0), -std::ldexp(1.0F, -25));
}

// 1.5 · 1.5 has the exponent of 1 · 1: it is 2.25, not 1.125 · 2.
TEST(TensorCore, ProductsAreNotNormalised) {
  const std::vector<Factors> products = {{1.5F, 1.5F}, {-1.5F, 1.5F}, {std::ldexp(1.0F, -25), 1}};
  EXPECT_EQ(sum_of(kHopperCore, products, 0), std::ldexp(1.0F, -25));
  EXPECT_EQ(sum_of({.is_normalised = true}, products, 0), 0);
}

TEST(TensorCore, TheSumIsCutOffToAFloat) {
  const float almost = std::ldexp(1.0F, -24);
  EXPECT_EQ(sum_of(kHopperCore, {{1, 1}, {almost, 1}, {almost, 0.5F}}, 0), 1);
  EXPECT_EQ(sum_of({.is_rounded = true}, {{1, 1}, {almost, 1}, {almost, 0.5F}}, 0), 1 + std::ldexp(1.0F, -23));
  EXPECT_EQ(sum_of({.is_rounded = true}, {{1, 1}, {almost, 1}}, 0), 1);
}

// Eight products, then eight beside their sum; in one sum the last is cut off beside the first.
TEST(TensorCore, AmpereSumsEightByEight) {
  std::vector<Factors> products(16);
  products[0] = {1, 1};
  products[1] = {-1, 1};
  products[15] = {std::ldexp(1.0F, -40), 1};
  EXPECT_EQ(sum_of(kAmpereCore, products, 0), std::ldexp(1.0F, -40));
  EXPECT_EQ(sum_of(kHopperCore, products, 0), 0);
}

TEST(TensorCore, SubnormalsCount) {
  const float least = std::numeric_limits<float>::denorm_min(), small = std::ldexp(1.0F, -133);  // of a bf16 the least
  EXPECT_EQ(sum_of(kHopperCore, {{small, 1}}, 0), small);
  EXPECT_EQ(sum_of(kHopperCore, {{small, std::ldexp(1.0F, 100)}}, 0), std::ldexp(1.0F, -33));
  EXPECT_EQ(sum_of(kHopperCore, {{small, 1}}, least), small + least);
  EXPECT_EQ(sum_of(kHopperCore, {{small, -0.5F}}, least), -small / 2 + least);
  EXPECT_EQ(sum_of({.is_flushed = true}, {{small, 1}}, least), 0);
}

TEST(TensorCore, WhatIsTooLargeIsInfinite) {
  const float large = std::ldexp(1.0F, 127);
  EXPECT_EQ(sum_of(kHopperCore, {{large, -2}}, 0), -kInf);
  EXPECT_EQ(sum_of(kHopperCore, {{large, 2}, {-large, 1}}, 0), large);  // only the sum has to fit
  EXPECT_EQ(sum_of({.is_saturated = true}, {{large, 2}}, 0), std::numeric_limits<float>::max());
}

TEST(TensorCore, InfinitiesAndNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sum_of(kHopperCore, {{kInf, -2}, {1, 1}}, 5), -kInf);
  EXPECT_EQ(sum_of(kHopperCore, {{1, 1}}, kInf), kInf);
  for (const uint32_t bits : {bits_of(kHopperCore, {{kInf, 0}}, 0), bits_of(kHopperCore, {{kInf, 1}}, -kInf),
                              bits_of(kHopperCore, {{kInf, 1}, {1, -kInf}}, 0), bits_of(kHopperCore, {{nan, 1}}, 0),
                              bits_of(kHopperCore, {{1, 1}}, -nan)}) {
    EXPECT_EQ(bits, kTensorCoreNan);
  }
  EXPECT_EQ(sum_of(kAmpereCore, {{kInf, 2}}, 5), kInf);  // by way of a sum that goes on
}

TEST(TensorCore, ZerosMakeAZeroWithoutSign) {
  EXPECT_EQ(bits_of(kHopperCore, {}, -0.0F), 0U);
  EXPECT_EQ(bits_of(kHopperCore, std::vector<Factors>(16, {-0.0F, 1}), -0.0F), 0U);
}

// A zero beside a large number, and a product of little ones.
TEST(TensorCore, AZerosExponentIsAsItIsSaid) {
  const std::vector<Factors> products = {{0, std::ldexp(1.0F, 100)}, {std::ldexp(1.0F, -60), std::ldexp(1.0F, -10)}};
  const std::vector<Factors> less = {{std::ldexp(1.0F, -126), std::ldexp(1.0F, -26)},
                                     {std::ldexp(1.0F, -126), std::ldexp(1.0F, -26)},
                                     {std::ldexp(1.0F, -126), std::ldexp(1.0F, -26)},
                                     {std::ldexp(1.0F, -126), std::ldexp(1.0F, -26)},
                                     {std::ldexp(1.0F, -126), std::ldexp(1.0F, -25)},
                                     {std::ldexp(1.0F, -126), std::ldexp(1.0F, -25)}};  // 2^-149 together
  using enum ZeroExponent;
  EXPECT_EQ(sum_of({.zero = none}, products, 0), std::ldexp(1.0F, -70));
  EXPECT_EQ(sum_of({.zero = least}, products, 0), std::ldexp(1.0F, -70));
  EXPECT_EQ(sum_of({.zero = of_factors}, products, 0), 0);
  EXPECT_EQ(sum_of({.zero = none}, less, 0), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(sum_of({.zero = least}, less, 0), 0);
}

// As the definition says it, in doubles, which hold such terms and their sum exactly.
TEST(TensorCore, IsWhatItsDefinitionSays) {
  uint64_t state = 1;
  const auto next = [&](uint64_t n) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % n;
  };
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<Factors> products(16);
    for (auto& [a, b] : products) {
      for (float* x : {&a, &b}) {
        *x = std::ldexp(static_cast<float>(128 + next(128)) / 128, static_cast<int>(next(20)) - 10);
        if (next(2) == 1) *x = -*x;
      }
    }
    const float c = std::ldexp(static_cast<float>(1 + next(1 << 23)), static_cast<int>(next(40)) - 40);
    int largest = std::ilogb(c);
    for (const auto& [a, b] : products) largest = std::max(largest, std::ilogb(a) + std::ilogb(b));
    const auto cut = [&](double x) { return std::trunc(std::ldexp(x, 25 - largest)); };
    double sum = cut(c);
    for (const auto& [a, b] : products) sum += cut(double{a} * b);
    sum = std::ldexp(sum, largest - 25);
    const int last = sum == 0 ? 0 : std::ilogb(sum) - 23;
    const auto expected = static_cast<float>(std::ldexp(std::trunc(std::ldexp(sum, -last)), last));
    EXPECT_EQ(sum_of(kHopperCore, products, c), expected) << turn;
  }
}

}  // namespace
}  // namespace quire::emulated
