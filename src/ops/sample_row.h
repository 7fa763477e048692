// One row of logits → one token: the definition that every backend follows, given its own sums over the vocabulary.
//   1. logits are the model's own; logprobs are of their softmax;
//   2. edits; 3. temperature 0: the largest, the lowest id among equals;
//   4. else the filters in their order (sample_filters.h), then the draw u picks by cumulative mass in id order.
// Fast because nothing is sorted and little is looked at: one pass keeps the largest logit of every 64; the k-th
// largest of those bounds the k-th largest logit from below, so only blocks above a bound are opened. Any thread, with
// its own scratch.
#pragma once
#include <span>
#include <vector>

#include "ops/ops.h"

namespace quire {

inline constexpr int64_t kSampleBlock = 64;

struct SampleKernels {
  // out[b] = the largest of x[64·b …]; false, and out without meaning, where a value is NaN or +inf.
  bool (*block_max)(float* out, const float* x, int64_t n);
  // out[i] = exp((x[i] − max) · factor), out may be null; returns the sum.
  float (*exp_row)(float* out, const float* x, int64_t n, float max, float factor);
};
// Plain loops: what the reference backend and tests use.
SampleKernels plain_sample_kernels();

// The token of a row that there was no memory for; it is not ok.
inline constexpr Token kNoMemoryToken = -2;

struct SampleScratch {
  std::vector<float> edited;     // the row under a bitmask
  std::vector<float> block_max;  // of the row, edits included
  std::vector<float> values;     // of candidates, while one bound is looked for
  std::vector<float> logits;     // of candidates, falling in with ids
  std::vector<Token> ids;        // of candidates, rising
  std::vector<uint64_t> mass;    // of candidates, 2^40 for the largest logit
  std::vector<double> chunk_sums;
  std::vector<float> originals;  // of sparsely edited logits
  struct Ranked {
    float key;
    Token id;
    uint64_t mass;
  };
  std::vector<Ranked> ranked;

  // Of rows of so many logits nothing takes memory behind it but what `top` holds.
  void reserve(int64_t n_logits);
};

// Sparse edits are made in place and undone before it returns: `logits` is the same afterwards. Throws nothing: a row
// that there is no memory for has kNoMemoryToken.
void sample_row(std::span<float> logits,
                const SampleParams& params,
                const SampleKernels& kernels,
                SampleScratch& scratch,
                Sampled& out);

}  // namespace quire
