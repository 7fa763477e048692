// Weights of −1, 0 and 1 under one scale, four rows in a row of bytes: byte [r, c] holds the numbers of rows r,
// r + n, r + 2n and r + 3n from its low bits up, each more by one, where n is how many rows of bytes there are. They
// become tq2_0 where rows are whole blocks of it and the scale is a number in half precision, else f4_64 or f32: the
// same values in each. Immutable once made; any thread. Source: unpack_weights of transformers 5.24.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "quant/weight_format.h"

namespace quire {

struct TernaryParts {
  int64_t n_packed = 0, n_in = 0;      // rows of bytes, a quarter of the weight's; columns
  std::span<const std::byte> numbers;  // [n_packed, n_in]
  float scale = 1;                     // value = scale · number
};

// The weight that they are, [4 · n_packed, n_in]. REQUIRES a span of just this size, a finite scale.
HostWeight ternary_weight(std::string name, const TernaryParts& parts);

}  // namespace quire
