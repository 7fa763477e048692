// min_p: keeps p ≥ min_p · the largest p (Nguyen et al. 2024).
#pragma once
#include <cmath>

#include "ops/filter_field.h"

namespace quire::filters {

struct MinP {
  static constexpr std::string_view kName = "min_p";
  static constexpr std::array kListed = {kName};
  struct Numbers {
    float min_p = 0.0F;
  };

  template <class F, class... P>
  static constexpr void fields(F&& f, P&... p) {
    constexpr FilterField kMinP = {
        .name = "min_p",
        .lo = 0,
        .hi = 1,
        .neutral = 0,
        .advice = {.usual = 0.05,
                   .hf = "hf_generation.min_p",
                   .gguf = "general.sampling.min_p",
                   .option = "--min-p",
                   .help = "draw from tokens at least this share of the likeliest, -1: as the model recommends, "
                           "else 0.05"}};
    f(kMinP, p.min_p...);
  }

  template <class Candidates>
  static void act(Candidates& c, const Numbers& params, int min_keep) {
    if (params.min_p <= 0.0F) return;
    const double distance = std::log(static_cast<double>(params.min_p)) / static_cast<double>(c.factor());
    c.keep_from(static_cast<double>(c.max()) + distance, min_keep);
  }
};

}  // namespace quire::filters
