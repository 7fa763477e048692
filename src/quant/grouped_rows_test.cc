// Random numbers, scales, zeros and groups, packed as the formats say, against rows that the formula gives.
#include "quant/grouped_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "quant/convert.h"
#include "quant/f16.h"
#include "quant/verify.h"

namespace quire {
namespace {

struct Case {
  const char* what;
  GroupedParts::Layout layout;
  int bits;
  int64_t n_out, n_in, group;
  bool v1, plain, shuffled;
  const char* scales;
  const char* wanted;  // format
};

// A weight in pieces, and what it means.
struct Pieces {
  std::vector<uint32_t> numbers, zeros;
  std::vector<std::byte> scales;
  std::vector<int32_t> scale_group_of;
  std::vector<float> meant;  // [n_out, n_in]
  GroupedParts parts;
};

void put_bits(std::vector<uint32_t>& words, int64_t word, int place, int bits, uint32_t value) {
  words[static_cast<size_t>(word)] |= value << (bits * place);
}

Pieces make_pieces(const Case& c, uint64_t seed) {
  constexpr int kPlaces[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  const bool awq = c.layout == GroupedParts::Layout::awq, rows = c.layout == GroupedParts::Layout::rows;
  const int per = 32 / c.bits;
  const int64_t n_scale_groups = c.group == 0 ? 1 : (c.n_in + c.group - 1) / c.group;
  const WeightFormat& format = *find_weight_format(std::string_view(c.scales));
  Rng rng(seed);
  Pieces out;
  for (int64_t i = 0; i < c.n_in; ++i)
    out.scale_group_of.push_back(static_cast<int32_t>(c.group == 0 ? 0 : i / c.group));
  for (int64_t i = c.n_in - 1; c.shuffled && i > 0; --i) {
    std::swap(out.scale_group_of[static_cast<size_t>(i)],
              out.scale_group_of[static_cast<size_t>(rng.between(0, static_cast<int>(i)))]);
  }
  out.scales.resize(static_cast<size_t>(n_scale_groups * c.n_out * format.bytes));
  std::vector<float> scales(static_cast<size_t>(n_scale_groups * c.n_out));
  std::vector<uint32_t> zeros(scales.size());
  const int64_t zero_words = (c.n_out + per - 1) / per;
  out.zeros.resize(static_cast<size_t>(n_scale_groups * zero_words));
  for (int64_t i = 0; i < n_scale_groups * c.n_out; ++i) {
    const auto at = static_cast<size_t>(i);
    scales[at] = rng.normal() * 0.01F;
    const int64_t group = i / c.n_out, row = i % c.n_out;
    std::byte* stored = out.scales.data() + (rows ? row * n_scale_groups + group : i) * format.bytes;
    format.encode(&scales[at], stored);
    format.decode(stored, &scales[at]);
    zeros[at] = c.plain ? 1U << (c.bits - 1) : static_cast<uint32_t>(rng.between(0, (1 << c.bits) - 1));
    const int place = static_cast<int>(row % per);
    const int64_t word = rows ? row / per * n_scale_groups + group : group * zero_words + row / per;
    put_bits(out.zeros, word, awq ? kPlaces[place] : place, c.bits, zeros[at]);
  }
  if (c.v1) {
    for (uint32_t& word : out.zeros) word -= c.bits == 4 ? 0x11111111U : 0x01010101U;
  }
  out.numbers.resize(static_cast<size_t>(c.n_out * c.n_in / per));
  for (int64_t row = 0; row < c.n_out; ++row) {
    for (int64_t k = 0; k < c.n_in; ++k) {
      const auto number = static_cast<uint32_t>(rng.between(0, (1 << c.bits) - 1));
      if (awq) put_bits(out.numbers, k * (c.n_out / 8) + row / 8, kPlaces[row % 8], 4, number);
      const int64_t word = rows ? row * (c.n_in / per) + k / per : k / per * c.n_out + row;
      if (!awq) put_bits(out.numbers, word, static_cast<int>(k % per), c.bits, number);
      const auto at = static_cast<size_t>(out.scale_group_of[static_cast<size_t>(k)] * c.n_out + row);
      out.meant.push_back(scales[at] * (static_cast<float>(number) - static_cast<float>(zeros[at])));
    }
  }
  out.parts = {.layout = c.layout,
               .bits = c.bits,
               .n_out = c.n_out,
               .n_in = c.n_in,
               .n_scale_groups = n_scale_groups,
               .zeros_less_one = c.v1,
               .numbers = std::as_bytes(std::span(out.numbers)),
               .zeros = std::as_bytes(std::span(out.zeros)),
               .scales = out.scales,
               .scale_format = &format,
               .scale_group_of = out.scale_group_of};
  return out;
}

// Rows as floats, their columns in order; made in runs of `run`.
std::vector<float> decoded(const HostWeight& weight, int64_t run) {
  const int64_t n_in = weight.n_cols();
  std::vector<float> out(static_cast<size_t>(weight.n_rows() * n_in)), row(static_cast<size_t>(n_in));
  std::vector<std::byte> room;
  for (int64_t first = 0; first < weight.n_rows(); first += run) {
    const int64_t n = std::min(run, weight.n_rows() - first);
    const std::byte* stored = weight.rows(first, n, room);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t i = 0; i < n_in; i += weight.format->block) {
        weight.format->decode(stored + r * weight.row_bytes() + i / weight.format->block * weight.format->bytes,
                              row.data() + i);
      }
      for (int64_t j = 0; j < n_in; ++j) {
        const int64_t column = weight.order().empty() ? j : weight.order()[static_cast<size_t>(j)];
        out[static_cast<size_t>((first + r) * n_in + column)] = row[static_cast<size_t>(j)];
      }
    }
  }
  return out;
}

using enum GroupedParts::Layout;
const Case kCases[] = {
    {"gptq 128", gptq, 4, 24, 256, 128, true, false, false, "f16", "q4_z128"},
    {"gptq one group", gptq, 4, 17, 256, 0, true, false, false, "f16", "q4_z128"},
    {"gptq one group, odd length", gptq, 4, 16, 160, 0, false, false, false, "f16", "q4_z32"},
    {"gptq 32", gptq, 4, 40, 96, 32, true, false, false, "f16", "q4_z32"},
    {"gptq 32 plain", gptq, 4, 40, 96, 32, true, true, false, "f16", "q4_0"},
    {"gptq 64", gptq, 4, 40, 128, 64, false, false, false, "f16", "q4_z32"},
    {"gptq 256", gptq, 4, 8, 512, 256, true, true, false, "f16", "q4_z128"},
    {"gptq 128, last one short", gptq, 4, 8, 192, 128, true, false, false, "f16", "q4_z32"},
    {"gptq 16", gptq, 4, 8, 64, 16, true, false, false, "f16", "f32"},
    {"gptq ordered", gptq, 4, 24, 384, 128, true, false, true, "f16", "q4_z128"},
    {"gptq ordered, last one short", gptq, 4, 24, 160, 64, true, false, true, "f16", "q4_z32"},
    {"gptq 8 ordered", gptq, 8, 21, 128, 32, true, false, true, "f16", "q8_z32"},
    {"gptq 8 plain", gptq, 8, 20, 128, 64, true, true, false, "f16", "q8_0"},
    {"gptq 8 v2", gptq, 8, 20, 128, 0, false, false, false, "f16", "q8_z32"},
    {"wide scales", gptq, 4, 24, 128, 32, true, false, true, "f32", "f32"},
    {"awq 128", awq, 4, 24, 256, 128, false, false, false, "f16", "q4_z128"},
    {"awq 64", awq, 4, 16, 192, 64, false, false, false, "f16", "q4_z32"},
    {"awq 32", awq, 4, 8, 64, 32, false, true, false, "f16", "q4_0"},
    {"rows 128", rows, 4, 21, 256, 128, false, false, false, "f16", "q4_z128"},
    {"rows 32", rows, 4, 24, 96, 32, false, false, false, "f16", "q4_z32"},
    {"rows 8", rows, 8, 19, 64, 0, false, false, false, "f16", "q8_z32"},
    {"rows ordered", rows, 4, 24, 256, 64, false, false, true, "f16", "q4_z32"},
};

TEST(GroupedRows, AreRepackedExactly) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    const Pieces pieces = make_pieces(c, 7);
    const HostWeight weight = grouped_weight("w", pieces.parts);
    EXPECT_EQ(weight.format->name, c.wanted);
    EXPECT_EQ(weight.shape, (std::vector<int64_t>{c.n_out, c.n_in}));
    EXPECT_EQ(weight.order().empty(), !c.shuffled || weight.format->block == 1);
    EXPECT_EQ(decoded(weight, 1), pieces.meant);
    EXPECT_EQ(decoded(weight, 16), pieces.meant);
    HostWeight some = weight;
    some.shape = {c.n_out - 5, c.n_in};
    some.first_made = 5;
    EXPECT_EQ(decoded(some, 16), (std::vector<float>(pieces.meant.begin() + 5 * c.n_in, pieces.meant.end())));
  }
}

TEST(GroupedRows, AreConvertedAndCheckedAsOtherRowsAre) {
  const WeightFormat& f32 = *find_weight_format(std::string_view("f32"));
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    const Pieces pieces = make_pieces(c, 11);
    const HostWeight weight = grouped_weight("w", pieces.parts);
    std::vector<float> found(pieces.meant.size());
    ASSERT_TRUE(convert_weight(weight, f32, {.n_threads = 2}, std::as_writable_bytes(std::span(found)).data()));
    EXPECT_EQ(found, pieces.meant);
    EXPECT_EQ(find_bad_numbers(weight, 2).count, 0);
  }
}

// Numbers, zeros and scales of a row side by side.
TEST(GroupedRows, SignedBytesAreRepackedExactly) {
  constexpr int64_t kOut = 21, kIn = 96;
  for (const int64_t n_scale_groups : {1, 3}) {
    for (const char* kind : {"plain", "zeros", "one scale"}) {
      SCOPED_TRACE(std::string(kind) + " " + std::to_string(n_scale_groups));
      const bool has_zeros = std::string_view(kind) != "plain", has_one = std::string_view(kind) == "one scale";
      Rng rng(31);
      std::vector<int8_t> numbers(kOut * kIn), zeros(static_cast<size_t>(kOut * n_scale_groups));
      std::vector<uint16_t> scales(zeros.size());
      for (int8_t& number : numbers) number = static_cast<int8_t>(rng.between(-128, 127));
      for (int8_t& zero : zeros) zero = static_cast<int8_t>(rng.between(-128, 127));
      for (uint16_t& scale : scales) scale = f32_to_f16(rng.normal() * 0.01F);
      std::vector<int32_t> scale_group_of;
      for (int32_t k = 0; k < kIn; ++k) scale_group_of.push_back(static_cast<int32_t>(k * n_scale_groups / kIn));
      std::vector<float> meant;
      for (int64_t i = 0; i < kOut * kIn; ++i) {
        const auto at =
            static_cast<size_t>(has_one ? 0 : i / kIn * n_scale_groups + scale_group_of[static_cast<size_t>(i % kIn)]);
        const int zero = has_zeros ? zeros[at] : 0;
        meant.push_back(f16_to_f32(scales[at]) * static_cast<float>(numbers[static_cast<size_t>(i)] - zero));
      }
      const HostWeight weight =
          grouped_weight("w", {.layout = bytes,
                               .bits = 8,
                               .n_out = kOut,
                               .n_in = kIn,
                               .n_scale_groups = n_scale_groups,
                               .numbers = std::as_bytes(std::span(numbers)),
                               .zeros = has_zeros ? std::as_bytes(std::span(zeros)) : std::span<const std::byte>(),
                               .scales = std::as_bytes(std::span(scales)),
                               .scale_format = find_weight_format(std::string_view("f16")),
                               .scale_group_of = scale_group_of,
                               .has_one_scale = has_one});
      EXPECT_EQ(weight.format->name, has_zeros ? "q8_z32" : "q8_0");
      EXPECT_EQ(decoded(weight, 1), meant);
      EXPECT_EQ(decoded(weight, 16), meant);
    }
  }
}

TEST(GroupedRows, ABadNumberIsFoundInItsRow) {
  Case c = kCases[8];  // stored as f32
  c.n_out = 40;
  c.scales = "f32";
  Pieces pieces = make_pieces(c, 5);
  store_as<float>(pieces.scales.data() + (2 * c.n_out + 37) * 4, INFINITY);  // of columns 32 to 47
  const BadNumbers bad = find_bad_numbers(grouped_weight("w", pieces.parts), 1);
  EXPECT_EQ(bad.count, 16);
  EXPECT_EQ(bad.row, 37);
  EXPECT_EQ(bad.column, 32);
}

// Without zeros every one is the middle.
TEST(GroupedRows, ZerosMayBeAbsent) {
  for (Case c : {kCases[3], kCases[11]}) {
    c.plain = true;
    c.v1 = false;
    Pieces pieces = make_pieces(c, 7);
    pieces.parts.zeros = {};
    EXPECT_EQ(decoded(grouped_weight("w", pieces.parts), 16), pieces.meant) << c.what;
  }
}

// Scales of BF16 are halves as long as they are no smaller than those.
TEST(GroupedRows, ScalesOfBf16NeedNoFloats) {
  Case c = kCases[0];
  c.scales = "bf16";
  Pieces pieces = make_pieces(c, 9);
  for (size_t i = 0; i < pieces.scales.size(); i += 2) {  // none is small
    uint16_t scale = load_as<uint16_t>(pieces.scales.data() + i);
    store_as<uint16_t>(pieces.scales.data() + i, static_cast<uint16_t>((scale & 0x807fU) | 0x3c00U));
  }
  EXPECT_EQ(grouped_weight("w", pieces.parts).format->name, "q4_z128");
  store_as<uint16_t>(pieces.scales.data(), f32_to_bf16(3e-8F));
  EXPECT_EQ(grouped_weight("w", pieces.parts).format->name, "f32");
}

TEST(GroupedRows, WhatRowsAreMadeOfIsTold) {
  Pieces pieces = make_pieces(kCases[0], 3);
  const HostWeight weight = grouped_weight("w", pieces.parts);
  EXPECT_EQ(weight.stored_bytes(),
            static_cast<int64_t>(pieces.parts.numbers.size() + pieces.parts.zeros.size() + pieces.scales.size()));
  pieces.parts.zeros_less_one = false;
  EXPECT_NE(grouped_weight("w", pieces.parts).made->kind(), weight.made->kind());
}

}  // namespace
}  // namespace quire
