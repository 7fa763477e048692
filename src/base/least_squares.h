// Straight lines through what was measured: weighted least squares over a few features, no coefficient below zero.
// Plain values; any thread.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

namespace quire {

// Sums over observations x → t, weighted: x·xᵀ and x·t.
template <size_t kN>
struct LineSums {
  using Vector = std::array<double, kN>;
  std::array<Vector, kN> xx{};
  Vector xt{};

  // Takes one more in; what came before counts `keep` of what it did.
  void add(const Vector& x, double t, double weight, double keep) {
    for (size_t i = 0; i < kN; ++i) {
      for (size_t j = 0; j < kN; ++j) xx[i][j] = xx[i][j] * keep + weight * x[i] * x[j];
      xt[i] = xt[i] * keep + weight * x[i] * t;
    }
  }
  LineSums& operator+=(const LineSums& o) {
    for (size_t i = 0; i < kN; ++i) {
      for (size_t j = 0; j < kN; ++j) xx[i][j] += o.xx[i][j];
      xt[i] += o.xt[i];
    }
    return *this;
  }
};

// Solves over the features in `used`; the others' coefficients are 0. A direction about which the sums say nothing gets
// 0.
template <size_t kN>
std::array<double, kN> solve_in(LineSums<kN> sums, const std::array<bool, kN>& used) {
  auto& a = sums.xx;
  auto& b = sums.xt;
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

// The active-set rule: the most negative coefficient is set to zero and the others solved for again.
template <size_t kN>
std::array<double, kN> fit_line(const LineSums<kN>& sums) {
  std::array<bool, kN> used;
  used.fill(true);
  while (true) {
    const std::array<double, kN> w = solve_in<kN>(sums, used);
    const auto least = std::min_element(w.begin(), w.end());
    if (*least >= 0) return w;
    used[static_cast<size_t>(least - w.begin())] = false;
  }
}

}  // namespace quire
