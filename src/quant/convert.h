// From one weight format to another, and how much that loses. Rows are converted in parallel; each depends on itself
// alone, so the number of threads changes nothing.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "quant/weight_format.h"

namespace quire {

struct ConversionError {
  double relative = 0;  // √(Σ (new − old)² / Σ old²), 0 where all is zero
  double largest = 0;   // max |new − old|
};

// Of a tensor's name: what it makes is too sensible to be rounded, and it has few bytes. Routers; what of a time mix
// (RWKV) moves rows and makes shares of them; embeddings of positions.
bool is_exact(std::string_view name);

// Vectors, biases, routers, shares of time mixes, rows of fewer than 16 numbers: few bytes that are read as they
// are.
bool is_small(const HostWeight& weight);

// The format that `weight` gets when `wanted` is asked for, in a file and at load alike. Vectors, what has fewer
// columns than a weight's group and the routers of experts keep their own: these choose by small differences. A matrix
// gets `wanted` where its rows are whole blocks of it; else the next larger format of blocks of 32 (iq4_nl for q2_k,
// q3_k and iq4_xs, q5_0 for q4_k, q5_1 for q5_k, q8_0 for q6_k), f16 where not even those fit; and its own where that
// is no smaller.
const WeightFormat* fitting_format(const HostWeight& weight, const WeightFormat& wanted);

struct Conversion {
  int n_threads = 1;
  bool quick = false;                      // Encoding::quick
  std::span<const float> importance = {};  // of each column, ≥ 0, on any scale; empty: all the same
};

// Writes weight.n_rows() rows of to.row_bytes(n_cols) bytes, their columns in order. REQUIRES that n_cols is whole
// blocks of `to`, and as many numbers of importance as columns, or none. Code::invalid names tensor, row and column of
// a number that is not finite, or that `to` cannot hold; `out` is then undefined.
Result<ConversionError> convert_weight(const HostWeight& weight,
                                       const WeightFormat& to,
                                       const Conversion& how,
                                       std::byte* out);

}  // namespace quire
