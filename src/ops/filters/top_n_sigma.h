// top_n_sigma: keeps x ≥ max − n · σ, σ the standard deviation of the logits (Tang et al. 2024).
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "ops/filter_field.h"

namespace quire::filters {

struct TopNSigma {
  static constexpr std::string_view kName = "top_n_sigma";
  static constexpr std::array kListed = {kName};
  struct Numbers {
    float top_n_sigma = 0.0F;  // 0: off
  };

  template <class F, class... P>
  static constexpr void fields(F&& f, P&... p) {
    constexpr FilterField kN = {
        .name = "top_n_sigma", .lo = -1, .hi = 1000, .neutral = 0, .take = [](double n) { return std::max(n, 0.0); }};
    f(kN, p.top_n_sigma...);
  }

  template <class Candidates>
  static void act(Candidates& c, const Numbers& params, int min_keep) {
    if (params.top_n_sigma <= 0.0F) return;
    constexpr size_t kLanes = 8;
    double sums[kLanes] = {}, squares[kLanes] = {}, counts[kLanes] = {};
    const std::span<const float> all = c.logits();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == -std::numeric_limits<float>::infinity()) continue;
      const auto v = static_cast<double>(all[i] - c.max());
      sums[i % kLanes] += v;
      squares[i % kLanes] += v * v;
      counts[i % kLanes] += 1;
    }
    double sum = 0, square = 0, count = 0;
    for (size_t l = 0; l < kLanes; ++l) {
      sum += sums[l];
      square += squares[l];
      count += counts[l];
    }
    const double mean = sum / count;
    const double sigma = std::sqrt(std::max(0.0, square / count - mean * mean));
    c.keep_from(static_cast<double>(c.max()) - static_cast<double>(params.top_n_sigma) * sigma, min_keep);
  }
};

}  // namespace quire::filters
