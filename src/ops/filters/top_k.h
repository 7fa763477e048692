// top_k: keeps the k largest, of equal ones the lowest ids (Fan et al. 2018).
#pragma once
#include <algorithm>
#include <limits>

#include "ops/filter_field.h"

namespace quire::filters {

struct TopK {
  static constexpr std::string_view kName = "top_k";
  static constexpr std::array kListed = {kName};
  struct Numbers {
    int top_k = 0;  // 0: all
  };

  template <class F, class... P>
  static constexpr void fields(F&& f, P&... p) {
    constexpr FilterField kK = {
        .name = "top_k",
        .lo = -1,
        .hi = std::numeric_limits<int>::max(),
        .neutral = 0,
        .take = [](double k) { return std::max(k, 0.0); },
        .advice = {.usual = 40,
                   .hf = "hf_generation.top_k",
                   .gguf = "general.sampling.top_k",
                   .option = "--top-k",
                   .help = "draw from so many of the likeliest tokens, 0: from all, -1: as the model recommends, "
                           "else 40"}};
    f(kK, p.top_k...);
  }

  template <class Candidates>
  static void act(Candidates& c, const Numbers& params, int min_keep) {
    if (params.top_k > 0) c.keep_largest(std::max(params.top_k, min_keep));
  }
};

}  // namespace quire::filters
