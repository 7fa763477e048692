// mirostat_2: keeps −log2 p ≤ mu (Basu et al. 2020). The rule of mirostat gives mu; lists of samplers do not name it.
#pragma once
#include <cmath>
#include <limits>

#include "ops/filter_field.h"

namespace quire::filters {

struct Mirostat2 {
  static constexpr std::string_view kName = "mirostat_2";
  static constexpr std::array<std::string_view, 0> kListed = {};
  struct Numbers {
    float mirostat_mu = std::numeric_limits<float>::infinity();  // bits
  };

  template <class F, class... P>
  static constexpr void fields(F&&, P&...) {}

  template <class Candidates>
  static void act(Candidates& c, const Numbers& params, int /*min_keep*/) {
    const double bits = std::log2(c.sum()) - static_cast<double>(params.mirostat_mu);
    c.keep_from(static_cast<double>(c.max()) + bits * std::log(2.0) / static_cast<double>(c.factor()), 1);
  }
};

}  // namespace quire::filters
