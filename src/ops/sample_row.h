// One row of logits → one token: the definition that every backend follows, given its own sums over the vocabulary.
//   1. logits are the model's own; logprobs are of their softmax;
//   2. edits; 3. temperature 0: the largest, the lowest id among equals;
//   4. else p = exp((x − max) / temperature); min_p drops p < min_p · p_max; top_k keeps the k largest (ties: lower
//   id);
//      top_p keeps the shortest run of the largest that reaches top_p of what is left; the draw u picks by cumulative
//      sum, in id order, or in order of falling p where top_k or top_p sorted them.
// Sums of candidates are in double and sequential. Any thread, with its own scratch.
#pragma once
#include <span>
#include <vector>

#include "ops/ops.h"

namespace quire {

struct SampleKernels {
  float (*max_row)(const float* x, int64_t n);
  float (*exp_row)(float* out, const float* x, int64_t n, float max, float factor);  // returns the sum
};

struct SampleScratch {
  struct Candidate {
    float p;
    Token id;
  };
  std::vector<float> edited, probabilities;
  std::vector<Candidate> candidates;
};

void sample_row(std::span<const float> logits,
                const SampleParams& params,
                const SampleKernels& kernels,
                SampleScratch& scratch,
                Sampled& out);

}  // namespace quire
