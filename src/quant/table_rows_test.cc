// Random numbers under tables and scales against rows that the formula gives.
#include "quant/table_rows.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace quire {
namespace {

struct Pieces {
  std::vector<uint8_t> numbers, bytes;  // bytes: of scales
  std::vector<float> scales, outer;     // scales: as they are meant
  TableParts parts;
};

Pieces make_pieces(int64_t n_out, int64_t n_in, bool is_nested) {
  Pieces out;
  Rng rng(5);
  TableParts& parts = out.parts;
  parts.n_out = n_out;
  parts.n_in = n_in;
  parts.block = 64;
  parts.outer_block = 4;
  for (int64_t i = 0; i < (n_out * n_in + 1) / 2; ++i) out.numbers.push_back(static_cast<uint8_t>(rng.bits()));
  for (float& level : parts.table) level = rng.normal();
  for (int i = 0; is_nested && i < 256; ++i) parts.scale_table.push_back(rng.normal());
  parts.offset = 0.75F;
  for (int64_t i = 0; i < parts.n_outer(); ++i) out.outer.push_back(rng.normal());
  for (int64_t i = 0; i < parts.n_blocks(); ++i) {
    out.bytes.push_back(static_cast<uint8_t>(rng.bits()));
    const float inner = is_nested ? parts.scale_table[out.bytes.back()] * out.outer[static_cast<size_t>(i / 4)] : 0.0F;
    out.scales.push_back(is_nested ? inner + parts.offset : rng.normal());
  }
  parts.numbers = std::as_bytes(std::span(out.numbers));
  parts.scales = is_nested ? std::as_bytes(std::span(out.bytes)) : std::as_bytes(std::span(out.scales));
  if (is_nested) parts.outer_scales = std::as_bytes(std::span(out.outer));
  return out;
}

// Blocks run on from row to row, so that a row may begin within one, and within a byte.
TEST(TableRows, AreTheirLevelsTimesTheirScales) {
  for (const bool is_nested : {false, true}) {
    for (const int64_t n_in : {64, 96, 256, 33}) {
      SCOPED_TRACE(std::to_string(n_in) + (is_nested ? " nested" : ""));
      const Pieces pieces = make_pieces(19, n_in, is_nested);
      const HostWeight weight = table_weight("w", pieces.parts);
      EXPECT_EQ(weight.format->name, "f32");
      EXPECT_EQ(weight.shape, (std::vector<int64_t>{19, n_in}));
      for (const int64_t run : {1, 16, 19}) {
        std::vector<std::byte> room;
        for (int64_t first = 0; first < 19; first += run) {
          const int64_t n = std::min<int64_t>(run, 19 - first);
          const auto* rows = reinterpret_cast<const float*>(weight.rows(first, n, room));
          for (int64_t i = 0; i < n * n_in; ++i) {
            const auto at = static_cast<size_t>(first * n_in + i);
            const unsigned two = pieces.numbers[at / 2];
            const float level = pieces.parts.table[at % 2 == 0 ? two / 16 : two % 16];
            ASSERT_EQ(rows[i], level * pieces.scales[at / 64]) << at;
          }
        }
      }
    }
  }
}

TEST(TableRows, WhatRowsAreMadeOfIsTold) {
  Pieces pieces = make_pieces(4, 64, true);
  const HostWeight weight = table_weight("w", pieces.parts);
  EXPECT_EQ(weight.stored_bytes(), 4 * 32 + 4 + 4);
  pieces.parts.table[3] += 1;
  EXPECT_NE(table_weight("w", pieces.parts).made->kind(), weight.made->kind());
}

}  // namespace
}  // namespace quire
