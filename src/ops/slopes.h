// By how much a score falls for each token that its key lies further back (ALiBi), head by head. One definition for all
// backends.
#pragma once
#include <cmath>
#include <span>

namespace quire {

// Slopes of out.size() heads, as negative powers of two: of the n = 2^⌊log2⌋ first heads h + 1 of n parts of
// `most_bits`, of those behind them the odd halves between. out[h] > 0.
inline void fill_slopes(std::span<float> out, float most_bits) {
  size_t n = 1;
  while (2 * n <= out.size()) n *= 2;
  for (size_t h = 0; h < out.size(); ++h) {
    const size_t parts = h < n ? 2 * (h + 1) : 2 * (h - n) + 1;
    const double bits = static_cast<double>(most_bits) * static_cast<double>(parts) / (2.0 * static_cast<double>(n));
    out[h] = static_cast<float>(std::exp2(-bits));
  }
}

}  // namespace quire
