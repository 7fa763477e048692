// How the matrix B of a low-rank part lies where the product that it is added to is scaled first, as DoRA does:
//   y = factor · y + summand + B·(A·x), each output with a factor and a summand of its own.
// They stand behind B's numbers: in a LowRankSource as two numbers more of every row of b, in a LowRank as two rows
// more of b, [rank + 2, n_out], which lies as its backend wants it. Pure functions; any thread.
#pragma once
#include "ops/operands.h"

namespace quire {

inline constexpr int64_t kScalingRows = 2;  // the factor, then the summand

// Numbers of an output in `of.b`.
inline int64_t numbers_per_output(const LowRankSource& of) {
  return of.n_out == 0 ? of.rank : std::ssize(of.b) / of.n_out;
}

inline bool scales_product(const LowRank& part) { return part.b.dim(0) > part.a.n_out; }

}  // namespace quire
