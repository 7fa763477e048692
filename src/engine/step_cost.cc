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

// Solves a·w = b over the rows and columns in `used`; the others' w are 0. `a` is positive semidefinite; a direction
// about which it says nothing gets 0.
template <size_t kN>
std::array<double, kN> solve_in(std::array<std::array<double, kN>, kN> a,
                                std::array<double, kN> b,
                                const std::array<bool, kN>& used) {
  std::array<double, kN> w{};
  for (size_t i = 0; i < kN; ++i) a[i][i] = a[i][i] * (1 + 1e-9) + 1e-30;
  for (size_t i = 0; i < kN; ++i) {
    if (!used[i]) continue;
    for (size_t j = i + 1; j < kN; ++j) {
      if (!used[j]) continue;
      const double f = a[j][i] / a[i][i];
      for (size_t k = i; k < kN; ++k) a[j][k] -= f * a[i][k];
      b[j] -= f * b[i];
    }
  }
  for (size_t i = kN; i-- > 0;) {
    if (!used[i]) continue;
    double sum = b[i];
    for (size_t k = i + 1; k < kN; ++k) sum -= used[k] ? a[i][k] * w[k] : 0;
    w[i] = sum / a[i][i];
  }
  return w;
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
  for (size_t i = 0; i < kN; ++i) {
    for (size_t j = 0; j < kN; ++j) memory.xx[i][j] = memory.xx[i][j] * kForget + weight * x[i] * x[j];
    memory.xt[i] = memory.xt[i] * kForget + weight * x[i] * taken;
  }
  solve();
  // The first errors are ignorance, not the machine's.
  if (n_observed_ >= kTrusting / 2) spread_ += (std::abs(error) - spread_) * kSpreadStep;
  if (n_observed_ < kTrusting) spread_ = std::max(spread_, 0.02 * taken);
  ++n_observed_;
  most_prefill_ = std::max(most_prefill_, shape.n_prefill);
}

// The active-set rule: the most negative coefficient is set to zero and the others solved for again.
void StepCost::solve() {
  Memory sum = with_prompts_;
  for (size_t i = 0; i < kN; ++i) {
    for (size_t j = 0; j < kN; ++j) sum.xx[i][j] += without_.xx[i][j];
    sum.xt[i] += without_.xt[i];
  }
  std::array<bool, kN> used;
  used.fill(true);
  while (true) {
    w_ = solve_in<kN>(sum.xx, sum.xt, used);
    const auto least = std::min_element(w_.begin(), w_.end());
    if (*least >= 0) return;
    used[static_cast<size_t>(least - w_.begin())] = false;
  }
}

int StepCost::fit(const StepShape& shape, int begin, int n, double limit_ns) const {
  int most = std::max(0, std::min(n, std::max(kFirstChunk, 2 * most_prefill_) - shape.n_prefill));
  int fits = 0;
  while (fits < most) {
    const int half = fits + (most - fits + 1) / 2;
    if (predict_ns(shape + StepShape::rows(begin, half)) + spread_ <= limit_ns) {
      fits = half;
    } else {
      most = half - 1;
    }
  }
  return fits;
}

}  // namespace quire
