// typical_p: keeps the shortest run in order of |−ln p − H| that reaches typical_p (Meister et al. 2022).
#pragma once
#include <algorithm>
#include <cmath>

#include "ops/filter_field.h"

namespace quire::filters {

struct TypicalP {
  static constexpr std::string_view kName = "typical_p";
  static constexpr std::array<std::string_view, 2> kListed = {"typ_p", kName};
  struct Numbers {
    float typical_p = 1.0F;
  };

  template <class F, class... P>
  static constexpr void fields(F&& f, P&... p) {
    constexpr FilterField kP = {
        .name = "typical_p", .lo = 0, .hi = 1, .neutral = 1, .other_name = "typ_p", .take = [](double share) {
          return share <= 0.0 ? 1.0 : share;
        }};
    f(kP, p.typical_p...);
  }

  template <class Candidates>
  static void act(Candidates& c, const Numbers& params, int min_keep) {
    if (params.typical_p >= 1.0F) return;
    const auto p = static_cast<double>(params.typical_p);
    const auto [total, h, n] = c.spread();
    const double log_sum = std::log(total);
    double wanted = 0;
    if (c.whole()) {
      wanted = p * total * Candidates::kMassOne;
      // Where −ln p > 2 H the order is that of falling p, behind all others: of those the ones that together have less
      // than half of 1 − p lie behind the run.
      const double share = 0.5 * (1.0 - p) / static_cast<double>(n);
      const double log_p = std::min(std::log(share), -2.0 * h);
      c.keep_from(static_cast<double>(c.max()) + (log_p + log_sum) / static_cast<double>(c.factor()), min_keep);
      c.weigh();
    } else {
      wanted = p * static_cast<double>(c.weigh());
    }
    const auto key = [max = c.max(), factor = static_cast<double>(c.factor()), log_sum, entropy = h](float logit) {
      return -static_cast<float>(std::abs(static_cast<double>(logit - max) * factor - log_sum + entropy));
    };
    c.keep_run(key, wanted, min_keep);
    c.find_max();
  }
};

}  // namespace quire::filters
