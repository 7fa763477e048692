#include "ops/sample_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire {
namespace {

using Candidate = SampleScratch::Candidate;
constexpr float kNone = -std::numeric_limits<float>::infinity();

bool larger(const Candidate& a, const Candidate& b) { return a.p != b.p ? a.p > b.p : a.id < b.id; }

Token argmax(std::span<const float> x, float max) {
  const auto at = std::find(x.begin(), x.end(), max);
  return at == x.end() ? -1 : static_cast<Token>(at - x.begin());
}

std::span<const float> apply_edits(std::span<const float> logits, const LogitEdits& edits, std::vector<float>& out) {
  out.assign(logits.begin(), logits.end());
  for (const Edit& edit : edits.sparse) {
    float& x = out[static_cast<size_t>(edit.id)];
    x = x * edit.mul + edit.add;
  }
  for (size_t i = 0; i < out.size() && !edits.bitmask.empty(); ++i) {
    if ((edits.bitmask[i / 32] >> (i % 32) & 1U) == 0) out[i] = kNone;
  }
  return out;
}

void report_top(std::span<const float> logits, float log_sum, int n_top, SampleScratch& scratch, Sampled& out) {
  out.top.clear();
  if (n_top <= 0) return;
  auto& all = scratch.candidates;
  all.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) all[i] = {logits[i], static_cast<Token>(i)};
  const auto n = static_cast<std::ptrdiff_t>(std::min(static_cast<size_t>(n_top), all.size()));
  std::partial_sort(all.begin(), all.begin() + n, all.end(), larger);
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const Candidate& c = all[static_cast<size_t>(i)];
    out.top.push_back({c.id, c.p - log_sum});
  }
}

// Candidates with p ≥ bound.
void collect(std::span<const float> p, float bound, std::vector<Candidate>& out) {
  out.clear();
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] >= bound && p[i] > 0.0F) out.push_back({p[i], static_cast<Token>(i)});
  }
}

double mass(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& c : candidates) total += c.p;
  return total;
}

void keep_top_k(int k, std::vector<Candidate>& candidates) {
  const auto n = static_cast<std::ptrdiff_t>(std::min(static_cast<size_t>(k), candidates.size()));
  if (static_cast<size_t>(n) < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + n, candidates.end(), larger);
    candidates.resize(static_cast<size_t>(n));
  }
}

void keep_top_p(float top_p, std::vector<Candidate>& candidates) {
  const double wanted = static_cast<double>(top_p) * mass(candidates);
  double reached = 0;
  size_t n = 0;
  while (n < candidates.size() && (n == 0 || reached < wanted)) reached += candidates[n++].p;
  candidates.resize(n);
}

Token draw(std::span<const Candidate> candidates, double u) {
  const double wanted = u * mass(candidates);
  double reached = 0;
  for (const Candidate& c : candidates) {
    reached += c.p;
    if (reached > wanted) return c.id;
  }
  return candidates.back().id;
}

// REQUIRES p's largest entry to be 1 (the exponent of the maximum).
Token draw_filtered(std::span<const float> p, const SampleParams& params, std::vector<Candidate>& candidates) {
  collect(p, params.min_p, candidates);
  const bool sorted = params.top_k > 0 || params.top_p < 1.0F;
  if (params.top_k > 0) keep_top_k(params.top_k, candidates);
  if (sorted) std::sort(candidates.begin(), candidates.end(), larger);
  if (params.top_p < 1.0F) keep_top_p(params.top_p, candidates);
  return draw(candidates, params.draw);
}

}  // namespace

void sample_row(std::span<const float> logits,
                const SampleParams& params,
                const SampleKernels& kernels,
                SampleScratch& scratch,
                Sampled& out) {
  const auto n = static_cast<int64_t>(logits.size());
  out = Sampled{.top = std::move(out.top)};
  out.top.clear();
  const float max = kernels.max_row(logits.data(), n);
  const float sum = kernels.exp_row(nullptr, logits.data(), n, max, 1.0F);
  if (!std::isfinite(max) || !std::isfinite(sum)) return;  // a NaN or an infinity somewhere in the row
  const float log_sum = max + static_cast<float>(std::log(static_cast<double>(sum)));
  report_top(logits, log_sum, params.n_top, scratch, out);

  const bool edited = params.edits != nullptr && (!params.edits->sparse.empty() || !params.edits->bitmask.empty());
  const std::span<const float> x = edited ? apply_edits(logits, *params.edits, scratch.edited) : logits;
  const float top = edited ? kernels.max_row(x.data(), n) : max;
  if (!std::isfinite(top)) return;  // nothing is allowed
  if (params.temperature <= 0.0F) {
    out.token = argmax(x, top);
  } else {
    scratch.probabilities.resize(logits.size());
    kernels.exp_row(scratch.probabilities.data(), x.data(), n, top, 1.0F / params.temperature);
    out.token = draw_filtered(scratch.probabilities, params, scratch.candidates);
  }
  out.logprob = logits[static_cast<size_t>(out.token)] - log_sum;
  out.ok = true;
}

}  // namespace quire
