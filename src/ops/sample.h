// What the sample op takes and gives: plain values, the same for every backend (the definition is in sample_row.h).
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/types.h"

namespace quire {

// A change to one logit before sampling: x becomes (x > 0 ? x / mul : x · mul) + add. mul > 1 makes a token less
// probable whatever its logit's sign (the repetition penalty of Keskar et al. 2019); add may be −inf, which forbids it.
struct Edit {
  Token id;
  float add, mul;
};
struct LogitEdits {
  std::vector<uint32_t> bitmask;  // bit id % 32 of word id / 32: allowed; empty: all
  std::vector<Edit> sparse;       // in order; ids may repeat
};

// What reshapes or cuts the distribution, one after the other in the order that is asked for (docs/sampling.md).
enum class Filter : uint8_t { temperature, top_n_sigma, min_p, top_k, typical_p, top_p, xtc, mirostat_2, mirostat_1 };
inline constexpr std::array kDefaultOrder = {Filter::temperature, Filter::top_n_sigma, Filter::min_p, Filter::top_k,
                                             Filter::typical_p,   Filter::top_p,       Filter::xtc};

struct SampleParams {
  float temperature = 0.0F;     // 0: the largest logit, whatever else is asked for
  float dynatemp_range = 0.0F;  // above 0: the temperature follows the entropy within ± range
  float dynatemp_exponent = 1.0F;
  int top_k = 0;  // 0: all
  float top_p = 1.0F;
  float min_p = 0.0F;
  float typical_p = 1.0F;
  float top_n_sigma = 0.0F;  // 0: off
  float xtc_probability = 0.0F, xtc_threshold = 0.1F;
  float mirostat_mu = std::numeric_limits<float>::infinity();  // bits
  int min_keep = 1;                                            // no cut leaves fewer
  std::span<const Filter> order = kDefaultOrder;               // what is not in it does not act; no name twice
  double draw = 0.0, xtc_draw = 0.0;                           // uniform in [0, 1), from (seed, position)
  const LogitEdits* edits = nullptr;
  Token forced = -1;    // ≥ 0: this is the token, nothing is drawn, edits do not act
  bool logprob = true;  // report the token's; costs an exponential over the vocabulary
  int n_top = 0;        // how many of the largest to report; above 0 REQUIRES logprob
  // These are of what edits and filters left, from which the token is drawn, instead of the model's own distribution.
  // Not together with forced.
  bool of_drawn = false;
};
struct TopLogprob {
  Token id;
  float logprob;
};
struct Sampled {
  Token token = -1;
  float logprob = 0.0F;  // of the model's own distribution, before edits and temperature; see of_drawn
  bool ok = false;       // false: a logit was NaN or +inf, or edits left nothing; token is then -1
  std::vector<TopLogprob> top;
  float surprise = 0.0F;  // bits, of the distribution that mirostat drew from; 0 without it
};

}  // namespace quire
