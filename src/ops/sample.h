// What the sample op takes and gives: plain values, the same for every backend (the definition is in sample_row.h).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "ops/filters.h"

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

// Numbers of the filters among them; by default the largest logit is taken.
struct SampleParams : FilterNumbers {
  SampleParams() { temperature = 0.0F; }  // 0: the largest logit, whatever else is asked for

  int min_keep = 1;                               // no cut leaves fewer
  std::span<const Filter> order = kDefaultOrder;  // what is not in it does not act; no name twice
  double draw = 0.0;                              // uniform in [0, 1), from (seed, position)
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
