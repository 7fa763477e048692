#include "model/altup.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

constexpr double kLeastMeanSquare = 1e-5;  // that a row is divided by

double mean_square(const float* row, int64_t d) {
  double sum = 0;
  for (int64_t c = 0; c < d; ++c) sum += static_cast<double>(row[c]) * static_cast<double>(row[c]);
  return sum / static_cast<double>(d);
}

}  // namespace

void predict_parts(const Tensor& out, const Tensor& x, const Tensor& coef) {
  const auto n_parts = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(coef.dim(1)))));
  const int64_t d = x.dim(1) / n_parts;
  for (int64_t row = 0; row < x.dim(0); ++row) {
    const float* from = x.row<float>(row);
    const float* by = coef.row<float>(row);
    for (int64_t i = 0; i < n_parts; ++i) {
      float* to = out.row<float>(row) + i * d;
      std::copy_n(from + i * d, d, to);
      for (int64_t j = 0; j < n_parts; ++j) {
        const float factor = by[i * n_parts + j];
        for (int64_t c = 0; c < d; ++c) to[c] += factor * from[j * d + c];
      }
    }
  }
}

void correct_parts(const Tensor& out, const Tensor& x, const Tensor& found, const Tensor& coef) {
  const int64_t n_parts = coef.dim(1), d = found.dim(1);
  for (int64_t row = 0; row < x.dim(0); ++row) {
    const float* from = x.row<float>(row);
    const float* active = found.row<float>(row);
    for (int64_t i = 0; i < n_parts; ++i) {
      const float factor = coef.row<float>(row)[i] + 1.0F;
      float* to = out.row<float>(row) + i * d;
      for (int64_t c = 0; c < d; ++c) to[c] = from[i * d + c] + factor * (active[c] - from[c]);
    }
  }
}

void scale_columns(const Tensor& y, const Tensor& x, const Tensor& w) {
  for (int64_t row = 0; row < x.dim(0); ++row) {
    for (int64_t c = 0; c < x.dim(1); ++c) y.row<float>(row)[c] = x.row<float>(row)[c] * w.ptr<float>()[c];
  }
}

void match_magnitudes(const Tensor& x, const Tensor& like) {
  const int64_t d = x.dim(1);
  for (int64_t row = 0; row < x.dim(0); ++row) {
    float* one = x.row<float>(row);
    const double own = std::max(mean_square(one, d), kLeastMeanSquare);
    const auto factor = static_cast<float>(std::sqrt(mean_square(like.row<float>(row), d) / own));
    for (int64_t c = 0; c < d; ++c) one[c] *= factor;
  }
}

}  // namespace quire
