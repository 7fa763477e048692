// The candidates of one row on their way through the filters. They begin as the whole vocabulary, of which only the
// blocks' maxima are known, and become a list at the first cut; every cut is a bound on logits, so the list keeps the
// order of ids and is never sorted. With f = 1 / temperature (1 before the temperature acts), p_i ∝ exp((x_i − max) ·
// f) over the candidates that are left, H their entropy in nats. What a filter keeps is said in its file in filters/.
// A cut keeps min_keep at least, and one always. Masses are integers (2^40 for the largest logit), so their sums do not
// depend on an order; only sums over a whole vocabulary are of floats, in chunks of 1024 added in order as doubles.
#pragma once
#include <array>
#include <limits>

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
  // Puts the logarithms of the shares into `out`: of out.token, which was drawn, and of the n_top largest that have
  // one.
  void tell_shares(int n_top, Sampled& out);
  // The k largest as (logit, id) in scratch.ranked, falling, equal ones by id. Not after a filter.
  void largest(int k);

  // What filters are made of. The list is of what is left, by rising id; `i` counts in it.
  static constexpr double kMassOne = 0x1p40;  // times 2^24 candidates: still below 2^64
  struct Spread {
    double sum = 0, entropy = 0;  // as sum() gives it; nats
    int64_t n = 0;
  };
  bool whole() const { return whole_; }  // nothing was cut and there is no list yet
  std::span<const float> logits() const { return whole_ ? x_ : std::span<const float>(scratch_.logits); }
  float max() const { return max_; }  // of what is left
  float factor() const { return factor_; }
  void set_factor(float factor) { factor_ = factor; }
  double sum();                                    // Σ exp((x − max) · f) of what is left
  Spread spread();                                 // of what is left
  uint64_t weigh();                                // fills the masses of the list; their sum. REQUIRES a list
  std::span<const float> peek_largest(int64_t k);  // falling, k at most; cuts nothing. Until the next call of any
  void list();                                     // makes the list where there is none
  void keep_from(double bound, int min_keep);      // x ≥ bound; makes the list
  void keep_largest(int64_t k);                    // of equal ones the lowest ids
  // Keeps candidate i of the list, with logit x, where keep(i, x).
  template <class Keep>
  void keep_where(Keep keep);
  // Keeps the shortest run of the list, by falling key(x) and rising id, whose mass reaches `wanted`. REQUIRES weigh().
  template <class Key>
  void keep_run(Key key, double wanted, int min_keep);
  void find_max();  // after a cut of the largest. REQUIRES a list

 private:
  using Ranked = SampleScratch::Ranked;
  // A type, not a function: sorts then inline it.
  struct Before {
    bool operator()(const Ranked& a, const Ranked& b) const { return a.key != b.key ? a.key > b.key : a.id < b.id; }
  };
  void collect(float bound);  // vocabulary → list of x ≥ bound (and more: see keep_from)
  float block_bound(int64_t k);
  // The last of the shortest run of scratch.ranked, by falling key and rising id, whose mass reaches `wanted`.
  Ranked end_of_run(double wanted, int min_keep);
  Token draw_from_all(double u, float* surprise);

  const std::span<const float> x_;
  float max_;  // of what is left
  const SampleKernels& kernels_;
  SampleScratch& scratch_;
  bool whole_ = true;
  float factor_ = 1.0F;
};

template <class Keep>
void SampleCandidates::keep_where(Keep keep) {
  SampleScratch& s = scratch_;
  size_t n = 0;
  for (size_t i = 0; i < s.ids.size(); ++i) {
    if (!keep(i, s.logits[i])) continue;
    s.ids[n] = s.ids[i];
    s.logits[n] = s.logits[i];
    ++n;
  }
  s.ids.resize(n);
  s.logits.resize(n);
}

template <class Key>
void SampleCandidates::keep_run(Key key, double wanted, int min_keep) {
  scratch_.ranked.resize(scratch_.ids.size());
  for (size_t i = 0; i < scratch_.ids.size(); ++i) {
    scratch_.ranked[i] = {key(scratch_.logits[i]), scratch_.ids[i], scratch_.mass[i]};
  }
  const Ranked last = end_of_run(wanted, min_keep);
  keep_where([&](size_t i, float x) { return !Before()(last, {key(x), scratch_.ids[i], 0}); });
}

}  // namespace quire
