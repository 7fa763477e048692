// Weights of FP8 folders: a byte in e4m3 for each number, and a scale for each rectangle of them,
//   value = scale · e4m3(byte), rounded to f32.
// Rows become blocks of f8_128 or f8_32, which hold them exactly, or f32 where rectangles are narrower or rows no whole
// blocks. Immutable once made; any thread.
// Source: the dequantisation of DeepSeek-V3's own code, of transformers 5.24 and of compressed-tensors 0.20, in f32.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "quant/weight_format.h"

namespace quire {

struct ScaledParts {
  int64_t n_out = 0, n_in = 0;
  int64_t scale_rows = 1, scale_columns = 1;   // of a rectangle; those at the ends may be smaller
  std::span<const std::byte> numbers, scales;  // [n_out, n_in]; [n_scale_rows(), n_scale_columns()]
  const WeightFormat* scale_format = nullptr;  // f16, bf16, f32; null: bytes, 127 more than powers of two (MXFP8)

  int64_t n_scale_rows() const { return (n_out + scale_rows - 1) / scale_rows; }
  int64_t n_scale_columns() const { return (n_in + scale_columns - 1) / scale_columns; }
  int64_t n_scales() const { return n_scale_rows() * n_scale_columns(); }
  float scale(int64_t i) const;
};

// The weight that they are. REQUIRES spans of just these sizes and finite scales.
HostWeight scaled_weight(std::string name, const ScaledParts& parts);

}  // namespace quire
