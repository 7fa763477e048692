// xtc: with its probability: of those with p ≥ threshold, if two or more, keeps the least probable only; the others all
// (p-e-w, text-generation-webui #6335).
#pragma once
#include <cmath>
#include <cstdint>
#include <span>

#include "base/rng.h"
#include "ops/filter_field.h"

namespace quire::filters {

struct Xtc {
  static constexpr std::string_view kName = "xtc";
  static constexpr std::array kListed = {kName};
  struct Numbers {
    float xtc_probability = 0.0F, xtc_threshold = 0.1F;
    double xtc_draw = 0.0;  // uniform in [0, 1)
  };

  template <class F, class... P>
  static constexpr void fields(F&& f, P&... p) {
    f(FilterField{.name = "xtc_probability", .lo = 0, .hi = 1, .neutral = 0}, p.xtc_probability...);
    f(FilterField{.name = "xtc_threshold", .lo = 0, .hi = 1, .neutral = 0.1}, p.xtc_threshold...);
  }

  // A second number per position, unrelated to the one that the token is drawn with.
  static void draw(Numbers& params, uint64_t seed, uint64_t position) {
    constexpr uint64_t kStream = 0x58c3a5d1f2b46e97;
    if (params.xtc_probability > 0.0F) params.xtc_draw = random_unit(seed ^ kStream, position);
  }

  template <class Candidates>
  static void act(Candidates& c, const Numbers& params, int min_keep) {
    if (params.xtc_probability <= 0.0F || params.xtc_draw >= static_cast<double>(params.xtc_probability)) return;
    const double share = static_cast<double>(params.xtc_threshold) * c.sum();
    const auto bound =
        static_cast<float>(static_cast<double>(c.max()) + std::log(share) / static_cast<double>(c.factor()));
    c.list();
    const std::span<const float> x = c.logits();
    size_t n_above = 0, least = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] < bound) continue;
      if (n_above == 0 || x[i] <= x[least]) least = i;
      ++n_above;
    }
    if (n_above < 2 || x.size() - n_above + 1 < static_cast<size_t>(min_keep)) return;
    c.keep_where([bound, least](size_t i, float logit) { return logit < bound || i == least; });
    c.find_max();
  }
};

}  // namespace quire::filters
