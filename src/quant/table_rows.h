// Weights of bitsandbytes' four bits (NF4, FP4): each number is one of sixteen levels of a table, and runs of them have
// a scale, their largest magnitude; scales may lie in eight bits of a table of their own, under scales and an offset:
//   value = table[number] · scale,   scale = scale_table[byte] · outer scale + offset.
// No format here holds arbitrary levels: rows become f32, or what --weights asks for. Immutable once made; any thread.
// Source: the dequantisation of bitsandbytes 0.50, in f32.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quant/weight_format.h"

namespace quire {

struct TableParts {
  int64_t n_out = 0, n_in = 0;
  int64_t block = 64;                  // numbers of a scale, counted through all rows; even
  std::span<const std::byte> numbers;  // two in a byte, the first in the high bits
  std::array<float, 16> table{};
  std::span<const std::byte> scales;             // f32, one a block; or, where there is a scale_table, bytes
  std::vector<float> scale_table = {};           // 256, or none
  int64_t outer_block = 256;                     // scales of an outer scale
  std::span<const std::byte> outer_scales = {};  // f32
  float offset = 0;

  int64_t n_blocks() const { return (n_out * n_in + block - 1) / block; }
  int64_t n_outer() const { return (n_blocks() + outer_block - 1) / outer_block; }
  float scale(int64_t at) const;  // of a block
};

// The weight that they are. REQUIRES spans of just these sizes and finite tables and scales.
HostWeight table_weight(std::string name, TableParts parts);

}  // namespace quire
