// Which experts a row's feed-forward part goes to, and the rows of each expert side by side, so that a product reads an
// expert's weights once for all rows that want it, and no others. (Shazeer et al. 2017, "Outrageously large neural
// networks"; sigmoids, biases of the choice and expert groups: DeepSeek-AI 2024, "DeepSeek-V3 technical report".)
// A row's choice depends on its scores only. One thread, the backend's caller.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ops/ops.h"

namespace quire {

// How rows choose: values, and room that stays.
class ExpertRouter {
 public:
  ExpertRouter() = default;
  // bias: of the choice, empty or one an expert; kept beyond the call.
  ExpertRouter(const Routing& routing, std::span<const float> bias) { set(routing, bias); }
  void set(const Routing& routing, std::span<const float> bias) {
    routing_ = routing;
    bias_ = bias;
  }
  // The routing.n_used experts that are chosen, by falling value of the choice, equal ones by number; and their shares,
  // in double, rounded once. A score that is no number, or +inf, makes every share NaN.
  void route(std::span<const float> scores, int32_t* experts, float* shares);

 private:
  void set_values(std::span<const float> scores, double largest);
  void close_expert_groups();
  void choose(int32_t* experts) const;
  double mass(float score, double largest) const;

  Routing routing_;
  std::span<const float> bias_;
  std::vector<double> value_;  // [n_experts]: what the choice goes by; −inf: in an expert group that is not chosen from
  std::vector<double> group_score_;  // [n_expert_groups]
};

// Rows sorted by expert. Kept from step to step, so that a steady state allocates nothing.
class Routes {
 public:
  // scores f32 [n, n_experts]; bias: of the choice, f32 [n_experts] or empty.
  void make(const Tensor& scores, const Routing& routing, const Tensor& bias);

  // Choice j of row i is gathered row place(i, j).
  int64_t place(int64_t i, int j) const { return places(i)[j]; }
  // Of row i's n_used() choices, one after the other.
  const int64_t* places(int64_t i) const { return place_.data() + i * n_used_; }
  const float* shares(int64_t i) const { return share_.data() + i * n_used_; }
  // Gathered rows [begin(e), begin(e + 1)) are expert e's, in the order of the rows.
  int64_t begin(size_t e) const { return begin_[e]; }
  int64_t count(size_t e) const { return begin_[e + 1] - begin_[e]; }
  size_t n_experts() const { return begin_.size() - 1; }
  int n_used() const { return n_used_; }

 private:
  int n_used_ = 0;
  ExpertRouter router_;
  std::vector<int32_t> expert_;  // [n · n_used]
  std::vector<float> share_;     // [n · n_used]
  std::vector<int64_t> place_;   // [n · n_used]
  std::vector<int64_t> begin_;   // [n_experts + 1]
};

// The parts of moe()'s scratch. A gathered input is dead once gate and up are computed: the result takes its place.
struct MoeScratch {
  MoeScratch(const Tensor& scratch, int64_t n_embd, int64_t n_ff)
      : x(scratch.columns(0, n_embd)),
        gate(scratch.columns(n_embd, n_ff)),
        up(scratch.columns(n_embd + n_ff, n_ff)),
        gate_up(scratch.columns(n_embd, 2 * n_ff)),
        hidden(scratch.columns(n_embd + 2 * n_ff, n_ff)),
        result(x) {}
  Tensor x;         // [n · n_used, n_embd]
  Tensor gate, up;  // [n · n_used, n_ff]
  Tensor gate_up;   // the two side by side
  Tensor hidden;    // [n · n_used, n_ff]
  Tensor result;    // [n · n_used, n_embd]
};

// gathered row place(i, j) = row i of x, for every j
void gather_row(const Routes& routes, int64_t i, const Tensor& x, const Tensor& gathered);

// Ops::moe by the other ops, expert after expert.
void moe_by_expert(Ops& ops, Tensor y, const MoeInput& in, const Experts& experts);
// The same with what an adapter adds to products: entry `first` + e of its layers is expert e's, by gate_up and down.
struct AddedExperts {
  const Adapter* adapter = nullptr;
  int first = 0;
};
void adapted_moe(Ops& ops, Tensor y, const MoeInput& in, const Experts& experts, const AddedExperts& added);

}  // namespace quire
