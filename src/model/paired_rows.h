// GGUF has the rows of q and k of some architectures in another order than Hugging Face's folders have them: components
// that turn together, which lie in the two halves of a head's turning ones there, are neighbours. Pure functions; any
// thread.
#pragma once
#include <cstdint>

#include "model/model.h"

namespace quire {

// Whether this model's lie so and a folder's do not. Families whose folders have neighbours too (Command R, GLM 4,
// ERNIE 4.5) have rows that lie right already.
bool pairs_rows(const ModelInfo& info);

// The row of a folder's that becomes row `row` of all heads; what does not turn stays.
inline int64_t unpaired_row(int64_t row, int64_t head_dim, int64_t n_rope) {
  const int64_t at = row % head_dim;
  return at < n_rope ? row - at + at / 2 + at % 2 * (n_rope / 2) : row;
}

}  // namespace quire
