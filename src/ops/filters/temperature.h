// temperature: f = 1 / T; with a range r, T = lo + (hi − lo) · (H / ln n)^exponent, lo = max(0, T − r), hi = T + r,
// over the n candidates at its place (llama.cpp's dynamic temperature). It cuts nothing.
#pragma once
#include <algorithm>
#include <cmath>

#include "ops/filter_field.h"

namespace quire::filters {

struct Temperature {
  static constexpr std::string_view kName = "temperature";
  static constexpr std::array kListed = {kName};
  struct Numbers {
    float temperature = 1.0F;     // 0: the largest logit, whatever else is asked for
    float dynatemp_range = 0.0F;  // above 0: the temperature follows the entropy within ± range
    float dynatemp_exponent = 1.0F;
  };
  static constexpr double kColdest = 1e-4;  // below it 1 / temperature leaves float's useful range

  template <class F, class... P>
  static constexpr void fields(F&& f, P&... p) {
    constexpr FilterField kTemperature = {
        .name = "temperature",
        .lo = 0,
        .hi = 100,
        .neutral = 1,
        .take = [](double t) { return t < kColdest ? 0.0 : t; },  // colder: the largest logit
        .advice = {.usual = 0.8,
                   .hf = "hf_generation.temperature",
                   .gguf = "general.sampling.temp",
                   .option = "--temperature,--temp",
                   .help = "0 always takes the likeliest token, -1: as the model recommends, else 0.8"}};
    f(kTemperature, p.temperature...);
    f(FilterField{.name = "dynatemp_range", .lo = 0, .hi = 100, .neutral = 0}, p.dynatemp_range...);
    f(FilterField{.name = "dynatemp_exponent", .lo = 0, .hi = 100, .neutral = 1}, p.dynatemp_exponent...);
  }

  template <class Candidates>
  static void act(Candidates& c, const Numbers& params, int /*min_keep*/) {
    float t = params.temperature;
    if (params.dynatemp_range > 0.0F) {
      const auto [sum, h, n] = c.spread();
      const double share = n > 1 ? std::clamp(h / std::log(static_cast<double>(n)), 0.0, 1.0) : 0.0;
      const float lo = std::max(0.0F, t - params.dynatemp_range), hi = t + params.dynatemp_range;
      const double shaped = std::pow(share, static_cast<double>(params.dynatemp_exponent));
      t = std::max(static_cast<float>(kColdest), lo + (hi - lo) * static_cast<float>(shaped));
    }
    c.set_factor(1.0F / t);
  }
};

}  // namespace quire::filters
