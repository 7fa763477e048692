#include "engine/step_cost.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

constexpr double kForget = 0.98;  // of one kind of step, when the next of that kind comes
constexpr double kSpreadStep = 0.05;
constexpr double kOutlier = 4;     // spreads beyond which a duration counts as so many
constexpr int64_t kTrusting = 16;  // first observations, which are taken as they are
constexpr int kFirstChunk = 32;    // rows of the first prompt that is computed beside streams

// The largest number up to `most` that fits, where none that is larger than one that does not fit does; 0: none.
template <class Fits>
int largest(int most, Fits&& fits) {
  int out = 0;
  while (out < most) {
    const int half = out + (most - out + 1) / 2;
    if (fits(half)) {
      out = half;
    } else {
      most = half - 1;
    }
  }
  return out;
}

}  // namespace

// In units that a usual step has about one of, so that the filter's numbers are of one size.
StepCost::Vector StepCost::features(const StepShape& shape) {
  return {1.0, shape.n_decode / 16.0, shape.n_prefill / 128.0, static_cast<double>(shape.n_keys) / 65536.0};
}

double StepCost::predict_ns(const StepShape& shape) const {
  const Vector x = features(shape);
  double out = 0;
  for (size_t i = 0; i < kN; ++i) out += w_[i] * x[i];
  return out;
}

void StepCost::observe(const StepShape& shape, int64_t ns) {
  if (ns <= 0) return;
  const Vector x = features(shape);
  const double predicted = predict_ns(shape);
  double error = static_cast<double>(ns) - predicted;
  if (n_observed_ >= kTrusting) error = std::clamp(error, -kOutlier * spread_, kOutlier * spread_);
  const double taken = std::max(predicted + error, 1.0);
  const double weight = 1 / (taken * taken);
  Memory& memory = shape.n_prefill > 0 ? with_prompts_ : without_;
  memory.add(x, taken, weight, kForget);
  w_ = fit_line(LineSums<kN>(with_prompts_) += without_);
  // The first errors are ignorance, not the machine's.
  if (n_observed_ >= kTrusting / 2) spread_ += (std::abs(error) - spread_) * kSpreadStep;
  if (n_observed_ < kTrusting) spread_ = std::max(spread_, 0.02 * taken);
  ++n_observed_;
  most_prefill_ = std::max(most_prefill_, shape.n_prefill);
}

int StepCost::fit(const StepShape& shape, int begin, int n, double limit_ns) const {
  const int most = std::max(0, std::min(n, std::max(kFirstChunk, 2 * most_prefill_) - shape.n_prefill));
  return largest(most,
                 [&](int rows) { return predict_ns(shape + StepShape::rows(begin, rows)) + spread_ <= limit_ns; });
}

int StepCost::fit_streams(const StepShape& shape, int n, double limit_ns) const {
  return largest(std::max(n, 0), [&](int rows) {
    StepShape with = shape;
    with.n_decode += rows;
    return predict_ns(with) + spread_ <= limit_ns;
  });
}

}  // namespace quire
