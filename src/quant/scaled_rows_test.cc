// Random bytes and scales against rows that the formula gives.
#include "quant/scaled_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/rng.h"
#include "quant/f16.h"

namespace quire {
namespace {

struct Case {
  const char* what;
  int64_t n_out, n_in, scale_rows, scale_columns;
  const char* scales;
  const char* wanted;  // format
};
const Case kCases[] = {
    {"blocks", 300, 384, 128, 128, "f32", "f8_128"},  {"blocks, ends of others", 130, 416, 128, 128, "bf16", "f8_32"},
    {"one scale", 17, 256, 17, 256, "f32", "f8_128"}, {"rows", 19, 128, 1, 128, "f16", "f8_128"},
    {"rows of 32", 40, 96, 1, 96, "bf16", "f8_32"},   {"groups", 18, 256, 1, 64, "f32", "f8_32"},
    {"narrow groups", 18, 64, 1, 16, "f32", "f32"},   {"odd length", 21, 70, 16, 32, "f32", "f32"},
};

struct Pieces {
  std::vector<std::byte> numbers, scales;
  std::vector<float> meant;  // [n_out, n_in]
  ScaledParts parts;
};

Pieces make_pieces(const Case& c, uint64_t seed) {
  Pieces out;
  Rng rng(seed);
  ScaledParts& parts = out.parts;
  parts = {.n_out = c.n_out,
           .n_in = c.n_in,
           .scale_rows = c.scale_rows,
           .scale_columns = c.scale_columns,
           .numbers = {},
           .scales = {},
           .scale_format = find_weight_format(std::string_view(c.scales))};
  std::vector<float> scales(static_cast<size_t>(parts.n_scales()));
  out.scales.resize(scales.size() * static_cast<size_t>(parts.scale_format->bytes));
  for (size_t i = 0; i < scales.size(); ++i) {
    std::byte* at = out.scales.data() + i * static_cast<size_t>(parts.scale_format->bytes);
    const float scale = rng.normal() * 0.01F;
    parts.scale_format->encode(&scale, at);
    parts.scale_format->decode(at, &scales[i]);
  }
  for (int64_t row = 0; row < c.n_out; ++row) {
    for (int64_t k = 0; k < c.n_in; ++k) {
      auto code = static_cast<uint8_t>(rng.bits());
      if ((code & 0x7fU) == 0x7fU) code = 0x7e;  // no NaN
      out.numbers.push_back(static_cast<std::byte>(code));
      const int64_t at = row / c.scale_rows * parts.n_scale_columns() + k / c.scale_columns;
      out.meant.push_back(scales[static_cast<size_t>(at)] * e4m3_to_f32(code));
    }
  }
  parts.numbers = out.numbers;
  parts.scales = out.scales;
  return out;
}

// All rows, made `run` at a time.
std::vector<float> decoded(const HostWeight& weight, int64_t run) {
  std::vector<float> out(static_cast<size_t>(weight.n_rows() * weight.n_cols()));
  std::vector<std::byte> room;
  for (int64_t first = 0; first < weight.n_rows(); first += run) {
    const int64_t n = std::min(run, weight.n_rows() - first) * weight.n_cols();
    const std::byte* stored = weight.rows(first, n / weight.n_cols(), room);
    for (int64_t i = 0; i < n; i += weight.format->block) {
      weight.format->decode(stored + i / weight.format->block * weight.format->bytes,
                            out.data() + first * weight.n_cols() + i);
    }
  }
  return out;
}

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> out;
  out.reserve(values.size());
  for (const float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

TEST(ScaledRows, AreRepackedExactly) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    const Pieces pieces = make_pieces(c, 7);
    const HostWeight weight = scaled_weight("w", pieces.parts);
    EXPECT_EQ(weight.format->name, c.wanted);
    EXPECT_EQ(weight.shape, (std::vector<int64_t>{c.n_out, c.n_in}));
    EXPECT_TRUE(weight.order().empty());
    EXPECT_EQ(bits_of(decoded(weight, 1)), bits_of(pieces.meant));
    EXPECT_EQ(bits_of(decoded(weight, 16)), bits_of(pieces.meant));
    HostWeight some = weight;
    some.shape = {c.n_out - 5, c.n_in};
    some.first_made = 5;
    const std::vector<float> rest(pieces.meant.begin() + 5 * c.n_in, pieces.meant.end());
    EXPECT_EQ(bits_of(decoded(some, 16)), bits_of(rest));
  }
}

TEST(ScaledRows, ScalesMayBeExponents) {
  Pieces pieces = make_pieces({"", 18, 96, 1, 32, "f16", "f8_32"}, 9);
  std::vector<uint8_t> exponents(static_cast<size_t>(pieces.parts.n_scales()));
  Rng rng(4);
  for (uint8_t& exponent : exponents) exponent = static_cast<uint8_t>(rng.between(0, 254));
  pieces.parts.scale_format = nullptr;
  pieces.parts.scales = std::as_bytes(std::span(exponents));
  const HostWeight weight = scaled_weight("w", pieces.parts);
  EXPECT_EQ(weight.format->name, "f8_32");
  const std::vector<float> found = decoded(weight, 16);
  for (size_t i = 0; i < found.size(); ++i) {
    const float scale = std::ldexp(1.0F, exponents[i / 32] - 127);
    ASSERT_EQ(found[i], scale * e4m3_to_f32(static_cast<uint8_t>(pieces.numbers[i]))) << i;
  }
  exponents[3] = 255;
  EXPECT_TRUE(std::isnan(pieces.parts.scale(3)));
}

TEST(ScaledRows, WhatRowsAreMadeOfIsTold) {
  Pieces pieces = make_pieces(kCases[0], 3);
  const HostWeight weight = scaled_weight("w", pieces.parts);
  EXPECT_EQ(weight.stored_bytes(), static_cast<int64_t>(pieces.numbers.size() + pieces.scales.size()));
  pieces.parts.scale_rows = 150;
  EXPECT_NE(scaled_weight("w", pieces.parts).made->kind(), weight.made->kind());
}

}  // namespace
}  // namespace quire
