#include "model/step_tables.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "ops/route.h"

namespace quire {

void fill_query_factors(const Tensor& out, const QueryScale& scale, const Tensor& pos, int32_t last) {
  const int64_t dim = 2 * out.dim(1);
  for (int64_t i = 0; i < out.dim(0); ++i) {
    const int64_t at = std::min(pos.ptr<int32_t>()[i], last);
    const int64_t n_lengths = (at + scale.ahead) / scale.length;
    const auto by = static_cast<float>(1.0 + scale.by * std::log1p(static_cast<double>(n_lengths)));
    float* row = out.ptr<float>() + i * dim;
    for (int64_t j = 0; j < dim; j += 2) {
      row[j] = by;
      row[j + 1] = 0.0F;
    }
  }
}

void fill_chunk_starts(const Tensor& out, int chunk, const Tensor& pos, const Tensor& first_key) {
  for (int64_t i = 0; i < out.dim(0); ++i) {
    const int32_t start = pos.ptr<int32_t>()[i] / chunk * chunk;
    out.ptr<int32_t>()[i] = std::max(start, first_key.ptr<int32_t>()[i]);
  }
}

void keep_above(const Tensor& gates, double cutoff) {
  const auto n_ff = static_cast<double>(gates.dim(1));
  for (int64_t i = 0; i < gates.dim(0); ++i) {
    const std::span<float> row(gates.row<float>(i), static_cast<size_t>(gates.dim(1)));
    double sum = 0, squares = 0;
    for (const float gate : row) sum += static_cast<double>(gate);
    const double mean = sum / n_ff;
    for (const float gate : row) squares += (static_cast<double>(gate) - mean) * (static_cast<double>(gate) - mean);
    const auto least = static_cast<float>(mean + cutoff * std::sqrt(squares / n_ff));
    for (float& gate : row) gate = std::max(gate - least, 0.0F);
  }
}

namespace {

// The score whose sigmoid is `share`.
float score_of(double share) {
  constexpr double kMost = 100.0;  // its sigmoid is 1
  return static_cast<float>(std::min(std::log(share) - std::log1p(-share), kMost));
}

// Of the best of `row` as a share of those it could be mistaken for; −∞ entries are no candidates. `scores`: all.
double share_of_best(std::span<const float> row, std::span<const float> scores, size_t best, float jitter) {
  const float most = row[best];
  double total = 0;
  for (size_t e = 0; e < row.size(); ++e) {
    const bool is_far = (most - scores[e]) / std::max(std::fabs(scores[e]), most) > 2 * jitter;
    if (!is_far) total += std::exp(static_cast<double>(row[e]) - static_cast<double>(most));
  }
  return 1.0 / total;
}

}  // namespace

void mix_sparsely(const Tensor& scores, float jitter) {
  const auto n_experts = static_cast<size_t>(scores.dim(1));
  std::vector<float> row(n_experts);
  for (int64_t i = 0; i < scores.dim(0); ++i) {
    const std::span<float> all(scores.row<float>(i), n_experts);
    if (!std::ranges::all_of(all, [](float score) { return std::isfinite(score); })) continue;  // its shares are none
    std::ranges::copy(all, row.begin());
    const auto first = static_cast<size_t>(std::ranges::max_element(row) - row.begin());
    const double share = share_of_best(row, all, first, jitter);
    row[first] = -INFINITY;
    const auto second = static_cast<size_t>(std::ranges::max_element(row) - row.begin());
    const double other = share_of_best(row, all, second, jitter);
    std::ranges::fill(all, -INFINITY);
    all[first] = score_of(share);
    all[second] = score_of(other);
  }
}

void gain_shares(const Tensor& scores, int n_used, const Tensor& gains, float scale) {
  const auto n_experts = static_cast<size_t>(scores.dim(1));
  const Routing routing{.n_used = n_used};
  ExpertRouter router(routing, {});
  std::vector<int32_t> experts(static_cast<size_t>(n_used));
  std::vector<float> shares(static_cast<size_t>(n_used));
  for (int64_t i = 0; i < scores.dim(0); ++i) {
    const std::span<float> row(scores.row<float>(i), n_experts);
    router.route(row, experts.data(), shares.data());
    if (std::isnan(shares.front())) continue;  // a score was no number: its shares are none
    std::ranges::fill(row, -INFINITY);
    for (size_t j = 0; j < experts.size(); ++j) {
      const auto e = static_cast<size_t>(experts[j]);
      const double gain = static_cast<double>(gains.ptr<float>()[e]) / static_cast<double>(scale);
      row[e] = score_of(static_cast<double>(shares[j]) * gain);
    }
  }
}

void cut_rows(const Tensor& x, float cut) {
  for (int64_t i = 0; i < x.dim(0); ++i) {
    for (float& at : std::span(x.row<float>(i), static_cast<size_t>(x.dim(1)))) {
      if (at > cut) at = cut;
      if (at < -cut) at = -cut;
    }
  }
}

void fill_largest(const Tensor& out, const Tensor& scores) {
  for (int64_t i = 0; i < out.dim(0); ++i) {
    const float* row = scores.row<float>(i);
    out.row<float>(i)[0] = *std::max_element(row, row + scores.dim(1));
  }
}

}  // namespace quire
