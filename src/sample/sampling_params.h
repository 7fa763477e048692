// What a request asks of the sampler. Every value is legal past Api::parse (see serve/limits.h for the ranges).
#pragma once
#include <cstdint>
#include <vector>

#include "base/types.h"
#include "ops/ops.h"

namespace quire {

struct SamplingParams {
  float temperature = 1.0F;  // 0: greedy
  int top_k = 0;             // 0: off
  float top_p = 1.0F;
  float min_p = 0.0F;
  uint64_t seed = 0;
  int n_logprobs = -1;  // -1: none; n: the chosen token's and the n largest
  std::vector<Edit> logit_bias;
};

// The op's parameters for the token at `position`: the draw is a function of (seed, position) alone.
SampleParams sample_params(const SamplingParams&, int64_t position, const LogitEdits* edits);

}  // namespace quire
