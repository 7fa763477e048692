// Weights of GPTQ, AWQ and compressed-tensors: numbers of four or eight bits, and for each scale group of columns a
// scale and a zero of every row,
//   value = scale · (number − zero).
// They lie packed in words of 32 bits and are repacked without loss: into blocks of one of our
// formats, or, where none of those holds them, as f32. Immutable once made; any thread.
// Source: the dequantisation of gptqmodel 7.7, autoawq 0.2.9 and compressed-tensors 0.20.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quant/weight_format.h"

namespace quire {

struct GroupedParts {
  // Of numbers, word [c, o] of gptq holds output o of as many columns as fit, from the low bits up, and word [k, o] of
  // awq column k of the eight outputs 8·o …, in the order 0 2 4 6 1 3 5 7. Zeros, [scale group, o], are outputs
  // together. Word [row, c] of rows holds as many columns of one output as fit; zeros, [o, scale group], are outputs
  // together. Of bytes numbers [o, column] and zeros [o, scale group] are signed bytes, each 128 less.
  enum class Layout : uint8_t { gptq, awq, rows, bytes };
  Layout layout = Layout::gptq;
  int bits = 4;  // 4, 8; 4 of awq, 8 of bytes
  int64_t n_out = 0, n_in = 0;
  int64_t n_scale_groups = 1;
  bool zeros_less_one = false;                        // a word of zeros is theirs less one in each
  std::span<const std::byte> numbers, zeros, scales;  // zeros empty: each is the middle
  // f16, bf16, f32; scales [n_scale_groups, n_out]; by rows [n_out, n_scale_groups]
  const WeightFormat* scale_format = nullptr;
  std::vector<int32_t> scale_group_of;                  // of every column, < n_scale_groups
  std::span<const std::byte> stored_scale_groups = {};  // the bytes that scale_group_of was read from

  float scale_factor = 1;      // that stored scales are multiplied by
  bool has_one_scale = false;  // for all outputs and scale groups, and one zero

  bool is_by_rows() const { return layout == Layout::rows || layout == Layout::bytes; }
  int per_word() const { return 32 / bits; }
  int64_t n_zero_words() const { return (n_out + per_word() - 1) / per_word(); }  // of a scale group
  float scale(int64_t scale_group, int64_t row) const;
  uint8_t zero(int64_t scale_group, int64_t row) const;
};

// The weight that they are. REQUIRES spans of just these sizes, n_in % per_word() == 0 but of bytes, of awq n_out % 8
// == 0, and finite scales.
HostWeight grouped_weight(std::string name, GroupedParts parts);

}  // namespace quire
