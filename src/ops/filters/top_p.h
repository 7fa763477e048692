// top_p: keeps the shortest run of the largest that reaches top_p (Holtzman et al. 2019).
#pragma once
#include <algorithm>
#include <cmath>

#include "ops/filter_field.h"

namespace quire::filters {

struct TopP {
  static constexpr std::string_view kName = "top_p";
  static constexpr std::array kListed = {kName};
  struct Numbers {
    float top_p = 1.0F;
  };

  template <class F, class... P>
  static constexpr void fields(F&& f, P&... p) {
    constexpr FilterField kP = {
        .name = "top_p",
        .lo = 0,
        .hi = 1,
        .neutral = 1,
        .take = [](double share) { return std::max(share, 1e-9); },  // 0: the most probable token, as a tiny value does
        .advice = {.usual = 0.95,
                   .hf = "hf_generation.top_p",
                   .gguf = "general.sampling.top_p",
                   .option = "--top-p",
                   .help = "draw from the likeliest tokens of this share together, -1: as the model recommends, "
                           "else 0.95"}};
    f(kP, p.top_p...);
  }

  template <class Candidates>
  static void act(Candidates& c, const Numbers& params, int min_keep) {
    if (params.top_p >= 1.0F) return;
    const auto p = static_cast<double>(params.top_p);
    double wanted = 0;
    if (c.whole()) {
      const double total = c.sum();
      wanted = p * total * Candidates::kMassOne;
      // All below the bound together have less than half of 1 − p: they lie behind the run.
      const double share = 0.5 * (1.0 - p) * total / static_cast<double>(c.logits().size());
      c.keep_from(static_cast<double>(c.max()) + std::log(share) / static_cast<double>(c.factor()), min_keep);
      c.weigh();
    } else {
      wanted = p * static_cast<double>(c.weigh());
    }
    c.keep_run([](float logit) { return logit; }, wanted, min_keep);
  }
};

}  // namespace quire::filters
