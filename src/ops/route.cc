#include "ops/route.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "ops/op_check.h"

namespace quire {
namespace {

// row i of y = Σ shares(i)[j] · row place(i, j) of result, from zero, in the order of j
void mix_row(const Routes& routes, int64_t i, const Tensor& result, const Tensor& y) {
  float* out = y.row<float>(i);
  std::fill_n(out, y.dim(1), 0.0F);
  for (int j = 0; j < routes.n_used(); ++j) {
    const float* one = result.row<float>(routes.place(i, j));
    const float share = routes.shares(i)[j];
    for (int64_t c = 0; c < y.dim(1); ++c) out[c] += share * one[c];
  }
}

}  // namespace

double ExpertRouter::mass(float score, double largest) const {
  const auto s = static_cast<double>(score);
  return routing_.scoring == Routing::Scoring::softmax ? std::exp(s - largest) : 1.0 / (1.0 + std::exp(-s));
}

// Scores themselves order experts as their shares do, unless a bias comes to them or expert groups add some.
void ExpertRouter::set_values(std::span<const float> scores, double largest) {
  value_.assign(scores.begin(), scores.end());
  if (bias_.empty() && !routing_.expert_groups_by_two) return;
  double total = 1.0;
  if (routing_.scoring == Routing::Scoring::softmax) {
    total = 0;
    for (const float score : scores) total += mass(score, largest);
  }
  for (size_t e = 0; e < scores.size(); ++e) {
    value_[e] = mass(scores[e], largest) / total + (bias_.empty() ? 0.0 : static_cast<double>(bias_[e]));
  }
}

void ExpertRouter::close_expert_groups() {
  const auto n_expert_groups = static_cast<size_t>(routing_.n_expert_groups);
  if (routing_.n_expert_groups_used == routing_.n_expert_groups) return;
  const size_t size = value_.size() / n_expert_groups;
  group_score_.assign(n_expert_groups, 0.0);
  for (size_t g = 0; g < n_expert_groups; ++g) {
    double best = -INFINITY;
    double second = -INFINITY;
    for (const double value : std::span(value_).subspan(g * size, size)) {
      if (value > best) {
        second = std::exchange(best, value);
      } else if (value > second) {
        second = value;
      }
    }
    group_score_[g] = routing_.expert_groups_by_two && size > 1 ? best + second : best;
  }
  for (size_t g = 0; g < n_expert_groups; ++g) {
    int n_before = 0;  // expert groups that go first, of equal ones those of lower number
    for (size_t other = 0; other < n_expert_groups; ++other) {
      n_before += static_cast<int>(group_score_[other] > group_score_[g] ||
                                   (group_score_[other] == group_score_[g] && other < g));
    }
    if (n_before < routing_.n_expert_groups_used) continue;
    std::fill_n(value_.begin() + static_cast<int64_t>(g * size), size, -INFINITY);
  }
}

void ExpertRouter::choose(int32_t* experts) const {
  const int n_used = routing_.n_used;
  int n = 0;
  for (size_t e = 0; e < value_.size(); ++e) {
    int at = n;
    while (at > 0 && value_[e] > value_[static_cast<size_t>(experts[at - 1])]) --at;
    if (at == n_used) continue;
    n = std::min(n + 1, n_used);
    for (int later = n - 1; later > at; --later) experts[later] = experts[later - 1];
    experts[at] = static_cast<int32_t>(e);
  }
}

void ExpertRouter::route(std::span<const float> scores, int32_t* experts, float* shares) {
  const int n_used = routing_.n_used;
  bool numbers = true;
  double largest = -INFINITY;
  for (const float score : scores) {
    numbers = numbers && score < std::numeric_limits<float>::infinity();
    largest = std::max(largest, static_cast<double>(score));
  }
  set_values(scores, largest);
  close_expert_groups();
  choose(experts);
  double total = 0;
  for (int j = 0; j < n_used && routing_.normalised; ++j)
    total += mass(scores[static_cast<size_t>(experts[j])], largest);
  if (!routing_.normalised && routing_.scoring == Routing::Scoring::sigmoid) total = 1.0;
  if (!routing_.normalised && routing_.scoring == Routing::Scoring::softmax) {
    for (const float score : scores) total += mass(score, largest);
  }
  for (int j = 0; j < n_used; ++j) {
    const double own = mass(scores[static_cast<size_t>(experts[j])], largest);
    const double share = own / total * static_cast<double>(routing_.scale);
    shares[j] = numbers ? static_cast<float>(share) : std::numeric_limits<float>::quiet_NaN();
  }
}

void Routes::make(const Tensor& scores, const Routing& routing, const Tensor& bias) {
  const int64_t n = scores.dim(0);
  const auto n_experts = static_cast<size_t>(scores.dim(1));
  router_.set(routing, bias.empty() ? std::span<const float>() : std::span<const float>(bias.ptr<float>(), n_experts));
  n_used_ = routing.n_used;
  const auto n_chosen = static_cast<size_t>(n * n_used_);
  expert_.resize(n_chosen);
  share_.resize(n_chosen);
  place_.resize(n_chosen);
  begin_.assign(n_experts + 1, 0);
  for (int64_t i = 0; i < n; ++i) {
    router_.route({scores.row<float>(i), n_experts}, expert_.data() + i * n_used_, share_.data() + i * n_used_);
  }
  for (const int32_t e : expert_) ++begin_[static_cast<size_t>(e) + 1];
  for (size_t e = 0; e < n_experts; ++e) begin_[e + 1] += begin_[e];
  for (size_t c = 0; c < n_chosen; ++c) place_[c] = begin_[static_cast<size_t>(expert_[c])]++;
  for (size_t e = n_experts; e > 0; --e) begin_[e] = begin_[e - 1];  // each had been counted up to the next one's
  begin_[0] = 0;
}

void gather_row(const Routes& routes, int64_t i, const Tensor& x, const Tensor& gathered) {
  for (int j = 0; j < routes.n_used(); ++j) {
    std::memcpy(gathered.row<float>(routes.place(i, j)), x.row<float>(i),
                static_cast<size_t>(x.dim(1)) * sizeof(float));
  }
}

void moe_by_expert(Ops& ops, Tensor y, const MoeInput& in, const Experts& experts) {
  adapted_moe(ops, y, in, experts, {});
}

void adapted_moe(Ops& ops, Tensor y, const MoeInput& in, const Experts& experts, const AddedExperts& added) {
  check_moe(y, in, experts);
  Routes routes;
  ops.finish();
  routes.make(in.router, experts.routing, experts.choice_bias);
  const MoeScratch at(in.scratch, y.dim(1), experts.down.front().n_in);
  for (int64_t i = 0; i < y.dim(0); ++i) gather_row(routes, i, in.x, at.x);
  for (size_t e = 0; e < routes.n_experts(); ++e) {
    const int64_t n = routes.count(e);
    if (n == 0) continue;
    const auto mine = [&](const Tensor& t) { return t.rows(routes.begin(e), n); };
    const AdapterRows all{added.adapter, 0, n};
    const auto add = [&](const Tensor& out, const Tensor& x, std::vector<LowRank> AdapterLayer::* product) {
      if (added.adapter == nullptr) return;
      ops.add_low_rank(mine(out), mine(x), {{&all, 1}, added.first + static_cast<int>(e), product});
    };
    const Tensor into = experts.has_gate ? at.gate_up : at.gate;
    ops.linear(mine(into), mine(at.x), experts.into(e));
    add(into, at.x, &AdapterLayer::gate_up);
    ops.gated(mine(at.hidden), mine(at.gate), experts.has_gate ? mine(at.up) : Tensor(), experts.activation);
    ops.linear(mine(at.result), mine(at.hidden), {&experts.down[e], 1});
    add(at.result, at.hidden, &AdapterLayer::down);
  }
  ops.finish();
  for (int64_t i = 0; i < y.dim(0); ++i) mix_row(routes, i, at.result, y);
}

}  // namespace quire
