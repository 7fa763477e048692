// mirostat_1: keeps the k largest, k = ⌊(ε · 2^mu / (1 − N^−ε))^(1/s)⌋, ε = s − 1: of N candidates distributed by
// Zipf's law with exponent s, which is fitted to the 100 largest, those give a surprise of mu (Basu et al. 2020). The
// rule of mirostat gives mu; lists of samplers do not name it.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "ops/filter_field.h"
#include "ops/filters/mirostat_2.h"

namespace quire::filters {

struct Mirostat1 {
  static constexpr std::string_view kName = "mirostat_1";
  static constexpr std::array<std::string_view, 0> kListed = {};
  struct Numbers {};

  template <class F, class... P>
  static constexpr void fields(F&&, P&...) {}

  template <class Candidates>
  static void act(Candidates& c, const Mirostat2::Numbers& params, int /*min_keep*/) {
    const auto n = static_cast<double>(c.logits().size());
    const double s = zipf_exponent(c), epsilon = s - 1.0;
    if (n < 2.0) return;
    // At ε = 0 the quotient's limit. All of k's factors as logarithms: 2^mu may be beyond a double.
    const double share = std::abs(epsilon) < 1e-9 ? 1.0 / std::log(n) : epsilon / -std::expm1(-epsilon * std::log(n));
    const double log_k_s = static_cast<double>(params.mirostat_mu) * std::log(2.0) + std::log(share);
    // Where all are equally probable (s = 0) the law says nothing: all or one.
    const double log_k = s > 0.0 ? log_k_s / s : log_k_s >= 0.0 ? std::log(n) : 0.0;
    if (log_k < std::log(n)) c.keep_largest(std::max<int64_t>(1, static_cast<int64_t>(std::exp(log_k))));
  }

  // Least squares through the origin of ln(p_i / p_i+1) over ln((i + 1) / i), i from 1 (Basu et al. 2020, equation 13
  // with m = 100). 0 where fewer than two are left.
  template <class Candidates>
  static double zipf_exponent(Candidates& c) {
    const std::span<const float> top = c.peek_largest(100);
    double products = 0, squares = 0;
    for (size_t i = 0; i + 1 < top.size(); ++i) {
      const double t = std::log1p(1.0 / static_cast<double>(i + 1));
      products += t * (static_cast<double>(top[i]) - static_cast<double>(top[i + 1])) * static_cast<double>(c.factor());
      squares += t * t;
    }
    return squares > 0.0 ? products / squares : 0.0;
  }
};

}  // namespace quire::filters
