#include "ops/route.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

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

void route_row(std::span<const float> scores, const Routing& routing, int32_t* experts, float* shares) {
  const int n_used = routing.n_used;
  int n = 0;
  bool numbers = true;
  for (size_t e = 0; e < scores.size(); ++e) {
    const float score = scores[e];
    numbers = numbers && score < std::numeric_limits<float>::infinity();
    int at = n;
    while (at > 0 && score > scores[static_cast<size_t>(experts[at - 1])]) --at;
    if (at == n_used) continue;
    n = std::min(n + 1, n_used);
    for (int later = n - 1; later > at; --later) experts[later] = experts[later - 1];
    experts[at] = static_cast<int32_t>(e);
  }
  const auto mass = [&](size_t e) {  // of the largest, 1
    return std::exp(static_cast<double>(scores[e]) - static_cast<double>(scores[static_cast<size_t>(experts[0])]));
  };
  double total = 0;
  for (int j = 0; j < n_used && routing.normalised; ++j) total += mass(static_cast<size_t>(experts[j]));
  for (size_t e = 0; e < scores.size() && !routing.normalised; ++e) total += mass(e);
  for (int j = 0; j < n_used; ++j) {
    const double share = mass(static_cast<size_t>(experts[j])) / total * static_cast<double>(routing.scale);
    shares[j] = numbers ? static_cast<float>(share) : std::numeric_limits<float>::quiet_NaN();
  }
}

void Routes::make(const Tensor& router, const Routing& routing) {
  const int64_t n = router.dim(0);
  const auto n_experts = static_cast<size_t>(router.dim(1));
  n_used_ = routing.n_used;
  const auto n_chosen = static_cast<size_t>(n * n_used_);
  expert_.resize(n_chosen);
  share_.resize(n_chosen);
  place_.resize(n_chosen);
  begin_.assign(n_experts + 1, 0);
  for (int64_t i = 0; i < n; ++i) {
    route_row({router.row<float>(i), n_experts}, routing, expert_.data() + i * n_used_, share_.data() + i * n_used_);
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
  check_moe(y, in, experts);
  Routes routes;
  routes.make(in.router, experts.routing);
  const MoeScratch at(in.scratch, y.dim(1), experts.down.front().n_in);
  for (int64_t i = 0; i < y.dim(0); ++i) gather_row(routes, i, in.x, at.x);
  for (size_t e = 0; e < routes.n_experts(); ++e) {
    const int64_t n = routes.count(e);
    if (n == 0) continue;
    const auto mine = [&](const Tensor& t) { return t.rows(routes.begin(e), n); };
    ops.linear(mine(at.gate_up), mine(at.x), experts.gate_up[e]);
    ops.gated(mine(at.hidden), mine(at.gate), mine(at.up), experts.activation);
    ops.linear(mine(at.result), mine(at.hidden), {&experts.down[e], 1});
  }
  for (int64_t i = 0; i < y.dim(0); ++i) mix_row(routes, i, at.result, y);
}

}  // namespace quire
