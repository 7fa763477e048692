// mirostat_2: keeps −log2 p ≤ mu (Basu et al. 2020). The rule of mirostat gives mu; lists of samplers do not name it.
#pragma once
#include <cmath>

#include "ops/sample_filters.h"

namespace quire {

template <>
struct FilterOf<Filter::mirostat_2> {
  static constexpr std::string_view kName = "mirostat_2";
  static constexpr std::array<std::string_view, 0> kListed = {};

  template <class F, class... P>
  static constexpr void fields(F&&, P&...) {}

  static void act(SampleCandidates& c, const SampleParams& params, int /*min_keep*/) {
    const double bits = std::log2(c.sum()) - static_cast<double>(params.mirostat_mu);
    c.keep_from(static_cast<double>(c.max()) + bits * std::log(2.0) / static_cast<double>(c.factor()), 1);
  }
};

}  // namespace quire
