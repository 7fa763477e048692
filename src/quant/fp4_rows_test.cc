// Random bytes against rows that the formula gives.
#include "quant/fp4_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "quant/f16.h"

namespace quire {
namespace {

constexpr float kLevels[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};

TEST(Fp4Rows, AreTheirNumbersTimesTheirScales) {
  struct Case {
    bool has_exponents;
    float factor, divisor;
    int64_t n_in;
    const char* format;
  };
  constexpr int64_t kOut = 19;
  for (const auto& [has_exponents, factor, divisor, n_in, format] :
       {Case{true, 1, 1, 96, "mxfp4"}, Case{false, 1, 2688.3F, 96, "f32"}, Case{false, 3.7e-4F, 1, 96, "f32"},
        Case{false, 1, 2688.3F, 192, "f4_64"}, Case{false, 3.7e-4F, 1, 192, "f4_64"}}) {
    Rng rng(3);
    std::vector<uint8_t> numbers(static_cast<size_t>(kOut * n_in / 2)), scales;
    for (uint8_t& two : numbers) two = static_cast<uint8_t>(rng.bits());
    Fp4Parts parts{.n_out = kOut, .n_in = n_in, .numbers = {}, .scales = {}, .has_exponents = has_exponents};
    parts.factor = factor;
    parts.divisor = divisor;
    for (int64_t i = 0; i < parts.n_scales(); ++i) {
      const auto byte = static_cast<uint8_t>(rng.bits());
      scales.push_back(has_exponents ? (byte == 255 ? 254 : byte) : static_cast<uint8_t>(byte & 0x7eU));
    }
    parts.numbers = std::as_bytes(std::span(numbers));
    parts.scales = std::as_bytes(std::span(scales));
    const HostWeight weight = fp4_weight("w", parts);
    EXPECT_EQ(weight.format->name, format);
    EXPECT_EQ(weight.stored_bytes(), static_cast<int64_t>(numbers.size() + scales.size()));
    std::vector<std::byte> room;
    std::vector<float> row(static_cast<size_t>(n_in));
    for (int64_t r = 0; r < kOut; ++r) {
      const std::byte* stored = weight.rows(r, 1, room);
      for (int64_t k = 0; k < n_in; k += weight.format->block) {
        weight.format->decode(stored + k / weight.format->block * weight.format->bytes, row.data() + k);
      }
      for (int64_t k = 0; k < n_in; ++k) {
        const unsigned two = numbers[static_cast<size_t>((r * n_in + k) / 2)], q = k % 2 == 0 ? two % 16 : two / 16;
        const uint8_t byte = scales[static_cast<size_t>((r * n_in + k) / parts.scale_group())];
        const float scale = has_exponents ? std::ldexp(1.0F, byte - 127) : e4m3_to_f32(byte) * factor / divisor;
        const float wanted = scale * (q < 8 ? kLevels[q] : -kLevels[q - 8]), got = row[static_cast<size_t>(k)];
        if (weight.format->block == 64 && divisor != 1) {  // the divisor has become a factor
          ASSERT_LE(std::fabs(got - wanted), std::fabs(wanted) * 0x1p-22F) << r << ' ' << k;
        } else {
          ASSERT_EQ(got, wanted) << format << ' ' << r << ' ' << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
