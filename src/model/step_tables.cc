#include "model/step_tables.h"

#include <algorithm>
#include <cmath>

namespace quire {

void fill_query_factors(const Tensor& out, const QueryScale& scale, const Tensor& pos, int32_t last) {
  const int64_t dim = 2 * out.dim(1);
  for (int64_t i = 0; i < out.dim(0); ++i) {
    const int64_t at = std::min(pos.ptr<int32_t>()[i], last);
    const int64_t n_lengths = (at + scale.ahead) / scale.length;
    const auto by = static_cast<float>(1.0 + scale.by * std::log1p(static_cast<double>(n_lengths)));
    float* row = out.ptr<float>() + i * dim;
    for (int64_t j = 0; j < dim; j += 2) {
      row[j] = by;
      row[j + 1] = 0.0F;
    }
  }
}

void fill_chunk_starts(const Tensor& out, int chunk, const Tensor& pos, const Tensor& first_key) {
  for (int64_t i = 0; i < out.dim(0); ++i) {
    const int32_t start = pos.ptr<int32_t>()[i] / chunk * chunk;
    out.ptr<int32_t>()[i] = std::max(start, first_key.ptr<int32_t>()[i]);
  }
}

void fill_largest(const Tensor& out, const Tensor& scores) {
  for (int64_t i = 0; i < out.dim(0); ++i) {
    const float* row = scores.row<float>(i);
    out.row<float>(i)[0] = *std::max_element(row, row + scores.dim(1));
  }
}

}  // namespace quire
