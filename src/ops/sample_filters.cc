#include "ops/sample_filters.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kMassOne = 0x1p40F;  // times 2^24 candidates: still below 2^64
constexpr int64_t kChunk = 1024;
constexpr size_t kLanes = 8;
constexpr float kColdest = 1e-4F;  // below it 1 / temperature leaves float's useful range

using Ranked = SampleScratch::Ranked;
bool before(const Ranked& a, const Ranked& b) { return a.key != b.key ? a.key > b.key : a.id < b.id; }

// The k-th largest. REQUIRES 1 ≤ k ≤ values.size(). Reorders values.
float kth_largest(std::span<float> values, int64_t k) {
  const auto at = values.begin() + (k - 1);
  std::nth_element(values.begin(), at, values.end(), std::greater<>());
  return *at;
}

}  // namespace

void SampleCandidates::collect(float bound) {
  whole_ = false;
  scratch_.ids.clear();
  scratch_.logits.clear();
  const auto n = static_cast<int64_t>(x_.size());
  for (size_t b = 0; b < scratch_.block_max.size(); ++b) {
    if (scratch_.block_max[b] < bound || scratch_.block_max[b] == kNone) continue;
    const int64_t begin = static_cast<int64_t>(b) * kSampleBlock;
    const int64_t end = std::min(n, begin + kSampleBlock);
    for (int64_t i = begin; i < end; ++i) {
      const float v = x_[static_cast<size_t>(i)];
      if (v < bound || v == kNone) continue;
      scratch_.ids.push_back(static_cast<Token>(i));
      scratch_.logits.push_back(v);
    }
  }
}

// Keeps candidate i of the list where keep(i).
template <class Keep>
static void keep_where(SampleScratch& s, Keep keep) {
  size_t n = 0;
  for (size_t i = 0; i < s.ids.size(); ++i) {
    if (!keep(i)) continue;
    s.ids[n] = s.ids[i];
    s.logits[n] = s.logits[i];
    ++n;
  }
  s.ids.resize(n);
  s.logits.resize(n);
}

void SampleCandidates::keep_from(double bound, int min_keep) {
  const float at_least = std::min(max_, static_cast<float>(bound));
  if (min_keep > 1) {
    int64_t n = 0;
    for (const float v : logits()) n += v >= at_least ? 1 : 0;
    if (n < min_keep) {
      keep_largest(min_keep);
      if (whole_) collect(kNone);  // no more than min_keep in all: the list is wanted nevertheless
      return;
    }
  }
  if (whole_) return collect(at_least);
  keep_where(scratch_, [&](size_t i) { return scratch_.logits[i] >= at_least; });
}

// Of the whole vocabulary at least k are no smaller: k blocks hold at least one each.
float SampleCandidates::block_bound(int64_t k) {
  if (k > static_cast<int64_t>(scratch_.block_max.size())) return kNone;
  scratch_.values = scratch_.block_max;
  return kth_largest(scratch_.values, k);
}

void SampleCandidates::keep_largest(int64_t k) {
  if (k >= static_cast<int64_t>(logits().size())) return;
  if (whole_) {
    collect(block_bound(k));
    if (k >= static_cast<int64_t>(scratch_.ids.size())) return;
  }
  scratch_.values = scratch_.logits;
  const float bound = kth_largest(scratch_.values, k);
  int64_t n_equal = k;  // how many equal to the bound there is room for
  for (const float v : scratch_.logits) n_equal -= v > bound ? 1 : 0;
  keep_where(scratch_, [&](size_t i) {
    const float v = scratch_.logits[i];
    return v > bound || (v == bound && n_equal-- > 0);
  });
}

double SampleCandidates::sum() {
  const std::span<const float> all = logits();
  scratch_.chunk_sums.clear();
  double total = 0;
  for (size_t at = 0; at < all.size(); at += kChunk) {
    const int64_t n = std::min<int64_t>(kChunk, static_cast<int64_t>(all.size() - at));
    total += scratch_.chunk_sums.emplace_back(kernels_.exp_row(nullptr, all.data() + at, n, max_, factor_));
  }
  return total;
}

uint64_t SampleCandidates::weigh() {
  const size_t n = scratch_.ids.size();
  scratch_.values.resize(n);
  scratch_.mass.resize(n);
  kernels_.exp_row(scratch_.values.data(), scratch_.logits.data(), static_cast<int64_t>(n), max_, factor_);
  uint64_t total = 0;
  for (size_t i = 0; i < n; ++i) {
    scratch_.mass[i] = static_cast<uint64_t>(scratch_.values[i] * kMassOne);
    total += scratch_.mass[i];
  }
  return total;
}

// Σ p · (x − max) of one chunk, in eight lanes: an addition waits for the one before it. What has no share may be −inf.
static double weigh_distances(const float* p, const float* x, size_t n, float max) {
  constexpr float kFar = std::numeric_limits<float>::lowest();
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += p[i + l] * std::max(x[i + l] - max, kFar);
  }
  for (; i < n; ++i) lanes[i % kLanes] += p[i] * std::max(x[i] - max, kFar);
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

SampleCandidates::Spread SampleCandidates::spread() {
  const std::span<const float> all = logits();
  scratch_.values.resize(kChunk);
  Spread out;
  double weighted = 0;
  for (size_t at = 0; at < all.size(); at += kChunk) {
    const size_t n = std::min<size_t>(kChunk, all.size() - at);
    const float* x = all.data() + at;
    out.sum += static_cast<double>(kernels_.exp_row(scratch_.values.data(), x, static_cast<int64_t>(n), max_, factor_));
    weighted += weigh_distances(scratch_.values.data(), x, n, max_);
    int32_t n_there = 0;
    for (size_t i = 0; i < n; ++i) n_there += x[i] > kNone ? 1 : 0;
    out.n += n_there;
  }
  out.entropy = std::log(out.sum) - weighted * static_cast<double>(factor_) / out.sum;
  return out;
}

void SampleCandidates::set_temperature(const SampleParams& params) {
  float t = params.temperature;
  if (params.dynatemp_range > 0.0F) {
    const auto [sum, h, n] = spread();
    const double share = n > 1 ? std::clamp(h / std::log(static_cast<double>(n)), 0.0, 1.0) : 0.0;
    const float lo = std::max(0.0F, t - params.dynatemp_range), hi = t + params.dynatemp_range;
    const double shaped = std::pow(share, static_cast<double>(params.dynatemp_exponent));
    t = std::max(kColdest, lo + (hi - lo) * static_cast<float>(shaped));
  }
  factor_ = 1.0F / t;
}

void SampleCandidates::top_n_sigma(float n, int min_keep) {
  double sums[kLanes] = {}, squares[kLanes] = {}, counts[kLanes] = {};
  const std::span<const float> all = logits();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == kNone) continue;
    const auto v = static_cast<double>(all[i] - max_);
    sums[i % kLanes] += v;
    squares[i % kLanes] += v * v;
    counts[i % kLanes] += 1;
  }
  double sum = 0, square = 0, count = 0;
  for (size_t l = 0; l < kLanes; ++l) {
    sum += sums[l];
    square += squares[l];
    count += counts[l];
  }
  const double mean = sum / count;
  const double sigma = std::sqrt(std::max(0.0, square / count - mean * mean));
  keep_from(static_cast<double>(max_) - static_cast<double>(n) * sigma, min_keep);
}

SampleScratch::Ranked SampleCandidates::end_of_run(double wanted, int min_keep) {
  auto& ranked = scratch_.ranked;
  const auto at = [&](size_t i) { return ranked.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto target = static_cast<uint64_t>(std::ceil(wanted));
  // Binary search for the last one that is kept: what lies before `lo` is kept and its mass is below the target.
  size_t lo = 0, hi = ranked.size();
  uint64_t reached = 0;
  while (hi - lo > 1) {
    const size_t mid = lo + (hi - lo) / 2;
    std::nth_element(at(lo), at(mid), at(hi), before);
    uint64_t half = 0;
    for (size_t i = lo; i < mid; ++i) half += ranked[i].mass;
    if (reached + half >= target) {
      hi = mid;
    } else {
      reached += half;
      lo = mid;
    }
  }
  const size_t last = std::min(std::max(lo, static_cast<size_t>(min_keep - 1)), ranked.size() - 1);
  if (last > lo) std::nth_element(ranked.begin(), at(last), ranked.end(), before);
  return ranked[last];
}

void SampleCandidates::top_p(float p, int min_keep) {
  double wanted = 0;
  if (whole_) {
    const double total = sum();
    wanted = static_cast<double>(p) * total * static_cast<double>(kMassOne);
    // All below the bound together have less than half of 1 − p: they lie behind the run.
    const double share = 0.5 * (1.0 - static_cast<double>(p)) * total / static_cast<double>(x_.size());
    const double bound = static_cast<double>(max_) + std::log(share) / static_cast<double>(factor_);
    keep_from(bound, min_keep);
    weigh();
  } else {
    wanted = static_cast<double>(p) * static_cast<double>(weigh());
  }
  scratch_.ranked.resize(scratch_.ids.size());
  for (size_t i = 0; i < scratch_.ids.size(); ++i) {
    scratch_.ranked[i] = {scratch_.logits[i], scratch_.ids[i], scratch_.mass[i]};
  }
  const Ranked last = end_of_run(wanted, min_keep);
  keep_where(scratch_, [&](size_t i) { return !before(last, {scratch_.logits[i], scratch_.ids[i], 0}); });
}

void SampleCandidates::typical_p(float p, int min_keep) {
  const auto [total, h, n] = spread();
  const double log_sum = std::log(total);
  double wanted = 0;
  if (whole_) {
    wanted = static_cast<double>(p) * total * static_cast<double>(kMassOne);
    // Where −ln p > 2 H the order is that of falling p, behind all others: of those the ones that together have less
    // than half of 1 − p lie behind the run.
    const double share = 0.5 * (1.0 - static_cast<double>(p)) / static_cast<double>(n);
    const double log_p = std::min(std::log(share), -2.0 * h);
    keep_from(static_cast<double>(max_) + (log_p + log_sum) / static_cast<double>(factor_), min_keep);
    weigh();
  } else {
    wanted = static_cast<double>(p) * static_cast<double>(weigh());
  }
  const auto key = [&](size_t i) {
    const double log_p = static_cast<double>(scratch_.logits[i] - max_) * static_cast<double>(factor_) - log_sum;
    return -static_cast<float>(std::abs(log_p + h));
  };
  scratch_.ranked.resize(scratch_.ids.size());
  for (size_t i = 0; i < scratch_.ids.size(); ++i) scratch_.ranked[i] = {key(i), scratch_.ids[i], scratch_.mass[i]};
  const Ranked last = end_of_run(wanted, min_keep);
  keep_where(scratch_, [&](size_t i) { return !before(last, {key(i), scratch_.ids[i], 0}); });
  max_ = *std::max_element(scratch_.logits.begin(), scratch_.logits.end());
}

void SampleCandidates::xtc(const SampleParams& params) {
  if (params.xtc_draw >= static_cast<double>(params.xtc_probability)) return;
  const double share = static_cast<double>(params.xtc_threshold) * sum();
  const auto bound = static_cast<float>(static_cast<double>(max_) + std::log(share) / static_cast<double>(factor_));
  if (whole_) collect(kNone);
  size_t n_above = 0, least = 0;
  for (size_t i = 0; i < scratch_.ids.size(); ++i) {
    if (scratch_.logits[i] < bound) continue;
    if (n_above == 0 || scratch_.logits[i] <= scratch_.logits[least]) least = i;
    ++n_above;
  }
  if (n_above < 2 || scratch_.ids.size() - n_above + 1 < static_cast<size_t>(params.min_keep)) return;
  keep_where(scratch_, [&, kept = scratch_.ids[least]](size_t i) {
    return scratch_.logits[i] < bound || scratch_.ids[i] == kept;
  });
  max_ = *std::max_element(scratch_.logits.begin(), scratch_.logits.end());
}

void SampleCandidates::mirostat_2(float mu) {
  const double bits = std::log2(sum()) - static_cast<double>(mu);
  keep_from(static_cast<double>(max_) + bits * std::log(2.0) / static_cast<double>(factor_), 1);
}

// Least squares through the origin of ln(p_i / p_i+1) over ln((i + 1) / i), i from 1 (Basu et al. 2020, equation 13
// with m = 100).
double SampleCandidates::zipf_exponent() {
  constexpr int64_t kFitted = 100;
  const bool whole = whole_;
  if (whole) collect(block_bound(kFitted));
  whole_ = whole;  // the list was for the fit
  auto& top = scratch_.values;
  top = scratch_.logits;
  const size_t n = std::min<size_t>(kFitted, top.size());
  std::partial_sort(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(n), top.end(), std::greater<>());
  double products = 0, squares = 0;
  for (size_t i = 0; i + 1 < n; ++i) {
    const double t = std::log1p(1.0 / static_cast<double>(i + 1));
    products += t * (static_cast<double>(top[i]) - static_cast<double>(top[i + 1])) * static_cast<double>(factor_);
    squares += t * t;
  }
  return squares > 0.0 ? products / squares : 0.0;
}

void SampleCandidates::mirostat_1(float mu) {
  const auto n = static_cast<double>(logits().size());
  const double s = zipf_exponent(), epsilon = s - 1.0;
  if (n < 2.0) return;
  // At ε = 0 the quotient's limit. All of k's factors as logarithms: 2^mu may be beyond a double.
  const double share = std::abs(epsilon) < 1e-9 ? 1.0 / std::log(n) : epsilon / -std::expm1(-epsilon * std::log(n));
  const double log_k_s = static_cast<double>(mu) * std::log(2.0) + std::log(share);
  // Where all are equally probable (s = 0) the law says nothing: all or one.
  const double log_k = s > 0.0 ? log_k_s / s : log_k_s >= 0.0 ? std::log(n) : 0.0;
  if (log_k < std::log(n)) keep_largest(std::max<int64_t>(1, static_cast<int64_t>(std::exp(log_k))));
}

void SampleCandidates::filter(Filter filter, const SampleParams& params) {
  const int min_keep = std::max(params.min_keep, 1);
  switch (filter) {
    case Filter::temperature: return set_temperature(params);
    case Filter::top_n_sigma: return params.top_n_sigma > 0.0F ? top_n_sigma(params.top_n_sigma, min_keep) : void();
    case Filter::min_p:
      if (params.min_p <= 0.0F) return;
      return keep_from(
          static_cast<double>(max_) + std::log(static_cast<double>(params.min_p)) / static_cast<double>(factor_),
          min_keep);
    case Filter::top_k: return params.top_k > 0 ? keep_largest(std::max(params.top_k, min_keep)) : void();
    case Filter::typical_p: return params.typical_p < 1.0F ? typical_p(params.typical_p, min_keep) : void();
    case Filter::top_p: return params.top_p < 1.0F ? top_p(params.top_p, min_keep) : void();
    case Filter::xtc: return params.xtc_probability > 0.0F ? xtc(params) : void();
    case Filter::mirostat_2: return mirostat_2(params.mirostat_mu);
    case Filter::mirostat_1: return mirostat_1(params.mirostat_mu);
  }
}

void SampleCandidates::largest(int k) {
  keep_largest(k);
  if (whole_) collect(kNone);
  scratch_.ranked.resize(scratch_.ids.size());
  for (size_t i = 0; i < scratch_.ids.size(); ++i) scratch_.ranked[i] = {scratch_.logits[i], scratch_.ids[i], 0};
  std::sort(scratch_.ranked.begin(), scratch_.ranked.end(), before);
}

Token SampleCandidates::draw_from_all(double u, float* surprise) {
  const double total = sum();
  const double wanted = u * total;
  double reached = 0;
  size_t chunk = 0;  // the first that ends behind the draw, or where rounding leaves none the last with a share
  for (size_t c = 0; c < scratch_.chunk_sums.size(); ++c) {
    if (scratch_.chunk_sums[c] <= 0.0) continue;
    chunk = c;
    if (reached + scratch_.chunk_sums[c] > wanted) break;
    reached += scratch_.chunk_sums[c];
  }
  const size_t begin = chunk * kChunk;
  const size_t n = std::min<size_t>(kChunk, x_.size() - begin);
  scratch_.values.resize(n);
  kernels_.exp_row(scratch_.values.data(), x_.data() + begin, static_cast<int64_t>(n), max_, factor_);
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    if (scratch_.values[i] <= 0.0F) continue;
    at = i;
    reached += static_cast<double>(scratch_.values[i]);
    if (reached > wanted) break;
  }
  if (surprise != nullptr) *surprise = static_cast<float>(std::log2(total / static_cast<double>(scratch_.values[at])));
  return static_cast<Token>(begin + at);
}

Token SampleCandidates::draw(double u, float* surprise) {
  if (whole_) return draw_from_all(u, surprise);
  const uint64_t total = weigh();
  const auto wanted = std::min(static_cast<uint64_t>(u * static_cast<double>(total)), total - 1);
  uint64_t reached = 0;
  size_t at = 0;
  while ((reached += scratch_.mass[at]) <= wanted) ++at;
  if (surprise != nullptr) {
    *surprise = static_cast<float>(std::log2(static_cast<double>(total) / static_cast<double>(scratch_.mass[at])));
  }
  return scratch_.ids[at];
}

}  // namespace quire
