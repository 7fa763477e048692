#include "ops/sample_filters.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr int64_t kChunk = 1024;
constexpr size_t kLanes = 8;

using Ranked = SampleScratch::Ranked;
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
  keep_where([at_least](size_t, float v) { return v >= at_least; });
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
  keep_where([&](size_t, float v) { return v > bound || (v == bound && n_equal-- > 0); });
}

std::span<const float> SampleCandidates::peek_largest(int64_t k) {
  const bool whole = whole_;
  if (whole) collect(block_bound(k));
  whole_ = whole;  // the list was for this look
  auto& top = scratch_.values;
  top = scratch_.logits;
  const auto n = std::min(static_cast<std::ptrdiff_t>(k), static_cast<std::ptrdiff_t>(top.size()));
  std::partial_sort(top.begin(), top.begin() + n, top.end(), std::greater<>());
  return {top.data(), static_cast<size_t>(n)};
}

void SampleCandidates::list() {
  if (whole_) collect(kNone);
}

void SampleCandidates::find_max() { max_ = *std::max_element(scratch_.logits.begin(), scratch_.logits.end()); }

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
    scratch_.mass[i] = static_cast<uint64_t>(scratch_.values[i] * static_cast<float>(kMassOne));
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

SampleScratch::Ranked SampleCandidates::end_of_run(double wanted, int min_keep) {
  auto& ranked = scratch_.ranked;
  const auto at = [&](size_t i) { return ranked.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto target = static_cast<uint64_t>(std::ceil(wanted));
  // Binary search for the last one that is kept: what lies before `lo` is kept and its mass is below the target.
  size_t lo = 0, hi = ranked.size();
  uint64_t reached = 0;
  while (hi - lo > 1) {
    const size_t mid = lo + (hi - lo) / 2;
    std::nth_element(at(lo), at(mid), at(hi), Before());
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
  if (last > lo) std::nth_element(ranked.begin(), at(last), ranked.end(), Before());
  return ranked[last];
}

void SampleCandidates::filter(Filter filter, const SampleParams& params) {
  using Act = void (*)(SampleCandidates&, const SampleParams&, int);
  static constexpr auto kActs = [] {
    std::array<Act, Filters::kSize> acts = {};
    size_t n = 0;
    for_each_filter([&](auto of) {
      acts[n++] = [](SampleCandidates& c, const SampleParams& with, int min_keep) {
        decltype(of)::act(c, with, min_keep);
      };
    });
    return acts;
  }();
  kActs[static_cast<size_t>(filter)](*this, params, std::max(params.min_keep, 1));
}

void SampleCandidates::largest(int k) {
  keep_largest(k);
  list();
  scratch_.ranked.resize(scratch_.ids.size());
  for (size_t i = 0; i < scratch_.ids.size(); ++i) scratch_.ranked[i] = {scratch_.logits[i], scratch_.ids[i], 0};
  std::sort(scratch_.ranked.begin(), scratch_.ranked.end(), Before());
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

void SampleCandidates::tell_shares(int n_top, Sampled& out) {
  list();
  const auto total = static_cast<double>(weigh());
  const auto share = [&](uint64_t mass) {
    return static_cast<float>(std::log(static_cast<double>(std::max<uint64_t>(mass, 1)) / total));
  };
  auto& ranked = scratch_.ranked;
  ranked.clear();
  for (size_t i = 0; i < scratch_.ids.size(); ++i) {
    const uint64_t mass = scratch_.mass[i];
    if (scratch_.ids[i] == out.token) out.logprob = share(mass);
    if (mass > 0) ranked.push_back({scratch_.logits[i], scratch_.ids[i], mass});
  }
  const size_t n = std::min(ranked.size(), static_cast<size_t>(n_top));
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(n), ranked.end(), Before());
  for (size_t i = 0; i < n; ++i) out.top.push_back({ranked[i].id, share(ranked[i].mass)});
}

}  // namespace quire
