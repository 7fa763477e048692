// The candidates of one row on their way through the filters. They begin as the whole vocabulary, of which only the
// blocks' maxima are known, and become a list at the first cut; every cut is a bound on logits, so the list keeps the
// order of ids and is never sorted. With f = 1 / temperature (1 before the temperature acts), p_i ∝ exp((x_i − max) ·
// f) over the candidates that are left, H their entropy in nats:
//   temperature    f = 1 / T; with a range r, T = lo + (hi − lo) · (H / ln n)^exponent, lo = max(0, T − r), hi = T + r
//   top_n_sigma    keeps x ≥ max − n · σ, σ the standard deviation of the logits
//   min_p          keeps p ≥ min_p · p_max
//   top_k          keeps the k largest, of equal ones the lowest ids
//   typical_p      keeps the shortest run in order of |−ln p − H| that reaches typical_p
//   top_p          keeps the shortest run of the largest that reaches top_p
//   xtc            with its probability: of those with p ≥ threshold, if two or more, keeps the least probable only
//   mirostat_2     keeps −log2 p ≤ mu
//   mirostat_1     keeps the k largest, k = ⌊(ε · 2^mu / (1 − N^−ε))^(1/s)⌋, ε = s − 1: of N candidates distributed by
//                  Zipf's law with exponent s, which is fitted to the 100 largest, those give a surprise of mu
// A cut keeps min_keep at least, and one always. Masses are integers (2^40 for the largest logit), so their sums do not
// depend on an order; only sums over a whole vocabulary are of floats, in chunks of 1024 added in order as doubles.
#pragma once
#include "ops/sample_row.h"

namespace quire {

class SampleCandidates {
 public:
  // x: the row with its edits, scratch.block_max belongs to it; max: its largest, finite.
  SampleCandidates(std::span<const float> x, float max, const SampleKernels& kernels, SampleScratch& scratch)
      : x_(x), max_(max), kernels_(kernels), scratch_(scratch) {}

  void filter(Filter filter, const SampleParams& params);
  // The id whose share of [0, 1) holds u. `surprise`: −log2 of its probability, where it is not null.
  Token draw(double u, float* surprise);
  // The k largest as (logit, id) in scratch.ranked, falling, equal ones by id. Not after a filter.
  void largest(int k);

 private:
  void collect(float bound);                   // vocabulary → list of x ≥ bound (and more: see keep)
  void keep_from(double bound, int min_keep);  // x ≥ bound
  void keep_largest(int64_t k);
  void set_temperature(const SampleParams& params);
  void top_n_sigma(float n, int min_keep);
  void typical_p(float p, int min_keep);
  void top_p(float p, int min_keep);
  void xtc(const SampleParams& params);
  void mirostat_2(float mu);
  void mirostat_1(float mu);
  double zipf_exponent();  // 0 where fewer than two are left
  float block_bound(int64_t k);

  double sum();      // Σ exp((x − max) · f) of what is left
  uint64_t weigh();  // fills scratch.mass for the list; its sum. REQUIRES a list
  struct Spread {
    double sum = 0, entropy = 0;  // as sum() gives it; nats
    int64_t n = 0;
  };
  Spread spread();  // of what is left
  // The last of the shortest run of scratch.ranked, by falling key and rising id, whose mass reaches `wanted`.
  SampleScratch::Ranked end_of_run(double wanted, int min_keep);
  Token draw_from_all(double u, float* surprise);
  std::span<const float> logits() const { return whole_ ? x_ : std::span<const float>(scratch_.logits); }

  const std::span<const float> x_;
  float max_;  // of what is left
  const SampleKernels& kernels_;
  SampleScratch& scratch_;
  bool whole_ = true;
  float factor_ = 1.0F;
};

}  // namespace quire
