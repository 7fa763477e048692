// What the sample op takes and gives: plain values, the same for every backend (the definition is in sample_row.h).
#pragma once
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace quire {

// A change to one logit before sampling: logit · mul + add.
struct Edit {
  Token id;
  float add, mul;
};
struct LogitEdits {
  std::vector<uint32_t> bitmask;  // bit id % 32 of word id / 32: allowed; empty: all
  std::vector<Edit> sparse;
};

struct SampleParams {
  float temperature = 0.0F;  // 0: the largest logit
  int top_k = 0;             // 0: all
  float top_p = 1.0F;
  float min_p = 0.0F;
  double draw = 0.0;  // uniform in [0, 1), from (seed, position)
  const LogitEdits* edits = nullptr;
  int n_top = 0;  // how many of the largest to report
};
struct TopLogprob {
  Token id;
  float logprob;
};
struct Sampled {
  Token token = -1;
  float logprob = 0.0F;  // of the model's own distribution, before edits and temperature
  bool ok = false;       // false: a logit was NaN or +inf, or edits left nothing; token is then -1
  std::vector<TopLogprob> top;
};

}  // namespace quire
