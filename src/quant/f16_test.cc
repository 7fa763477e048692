#include "quant/f16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/rng.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire {
namespace {

bool is_nan16(uint16_t h) { return (h & 0x7fffU) > 0x7c00U; }

// What a half stands for, from its fields and in double: not the code under test.
double half_value(uint16_t h) {
  const double sign = (h & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = (h >> 10) & 31;
  const int fraction = h & 1023;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// The nearest value with `bits` of fraction whose smallest step is 2^min_step, ties to even; infinite from `limit` on.
double rounded(double x, int bits, int min_step, double limit) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int step = std::max(std::ilogb(x) - bits, min_step);
  const double value = std::ldexp(std::nearbyint(std::ldexp(x, -step)), step);  // both scalings are exact in double
  return std::fabs(value) >= limit ? std::copysign(std::numeric_limits<double>::infinity(), x) : value;
}

void expect_half(float x) {
  const uint16_t h = f32_to_f16(x);
  if (std::isnan(x)) {
    ASSERT_TRUE(is_nan16(h)) << std::bit_cast<uint32_t>(x);
    return;
  }
  ASSERT_EQ(half_value(h), rounded(double{x}, 10, -24, 65536.0)) << std::hexfloat << x;
  ASSERT_EQ((h & 0x8000U) != 0, std::signbit(x)) << std::hexfloat << x;
}

void expect_bfloat(float x) {
  const float back = bf16_to_f32(f32_to_bf16(x));
  if (std::isnan(x)) {
    ASSERT_TRUE(std::isnan(back)) << std::bit_cast<uint32_t>(x);
    return;
  }
  ASSERT_EQ(double{back}, rounded(double{x}, 7, -133, 0x1p128)) << std::hexfloat << x;
  ASSERT_EQ(std::signbit(back), std::signbit(x)) << std::hexfloat << x;
}

// Both signs of the floats at, just below and just above `middle`.
template <class Check>
void around(float middle, Check check) {
  for (const float sign : {1.0F, -1.0F}) {
    const float x = sign * middle;
    check(x);
    check(std::nextafter(x, 0.0F));
    check(std::nextafter(x, x * 2));
  }
}

TEST(F16, EveryHalfReadsAsItsFieldsSay) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto h = static_cast<uint16_t>(i);
    const float x = f16_to_f32(h);
    if (is_nan16(h)) {
      ASSERT_TRUE(std::isnan(x)) << i;
    } else {
      ASSERT_EQ(double{x}, half_value(h)) << i;
      ASSERT_EQ(std::signbit(x), i >= 32768) << i;
    }
  }
}

TEST(F16, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto h = static_cast<uint16_t>(i);
    const uint16_t quiet = is_nan16(h) ? uint16_t{0x200} : uint16_t{0};
    ASSERT_EQ(f32_to_f16(f16_to_f32(h)), h | quiet) << i;
  }
}

TEST(F16, RoundsToNearestEvenAtEveryBoundary) {
  for (uint16_t h = 0; h < 0x7c00; ++h) {
    const double next = h == 0x7bff ? 65536.0 : half_value(static_cast<uint16_t>(h + 1));
    around(static_cast<float>(half_value(h)), expect_half);
    around(static_cast<float>((half_value(h) + next) / 2), expect_half);
  }
}

TEST(F16, RoundsFloatsOfEverySize) {
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099) {  // a prime stride meets every exponent
    expect_half(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
}

TEST(BF16, EveryBfloatSurvivesTheRoundTrip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto h = static_cast<uint16_t>(i);
    const float x = bf16_to_f32(h);
    ASSERT_EQ(std::bit_cast<uint32_t>(x), i << 16);
    ASSERT_EQ(f32_to_bf16(x), std::isnan(x) ? h | 0x40U : h) << i;
  }
}

TEST(BF16, RoundsToNearestEvenAtEveryBoundary) {
  for (uint32_t h = 0; h < 0x7f80; ++h) {
    around(std::bit_cast<float>(h << 16), expect_bfloat);
    around(std::bit_cast<float>((h << 16) + 0x8000U), expect_bfloat);  // halfway to the next
  }
  around(std::numeric_limits<float>::max(), expect_bfloat);
  expect_bfloat(std::numeric_limits<float>::infinity());
  expect_bfloat(-std::numeric_limits<float>::infinity());
}

TEST(BF16, RoundsFloatsOfEverySize) {
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099) {
    expect_bfloat(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) uint32_t hardware_f16_to_f32(uint16_t h) {
  return std::bit_cast<uint32_t>(_cvtsh_ss(h));
}
__attribute__((target("f16c"))) uint16_t hardware_f32_to_f16(float x) {
  return static_cast<uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
}

TEST(F16, AgreesWithTheHardwareBitForBit) {
  if (!__builtin_cpu_supports("f16c")) GTEST_SKIP() << "this CPU has no F16C";
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto h = static_cast<uint16_t>(i);
    ASSERT_EQ(std::bit_cast<uint32_t>(f16_to_f32(h)), hardware_f16_to_f32(h)) << i;
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 257) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(f32_to_f16(x), hardware_f32_to_f16(x)) << bits;
  }
}

__attribute__((target("avx512bf16,avx512vl"))) uint16_t hardware_f32_to_bf16(float x) {
  uint16_t out;
  const auto rounded = _mm_cvtneps_pbh(_mm_set1_ps(x));
  std::memcpy(&out, &rounded, sizeof out);
  return out;
}

TEST(F16, Bf16AgreesWithTheHardwareBitForBit) {
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this CPU has no AVX512-BF16";
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 257) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(f32_to_bf16_flushed(x), hardware_f32_to_bf16(x)) << bits;
  }
}
#endif

}  // namespace
}  // namespace quire
