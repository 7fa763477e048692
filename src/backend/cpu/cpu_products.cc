// Products, and what stands between two of them: norms, quantising, gates, experts.
#include "backend/cpu/cpu_backend.h"
#include "ops/op_check.h"

namespace quire {
namespace {

// Columns of a gated unit that go on together: whole groups, few enough that the last of them are never far behind.
constexpr int64_t kGateColumns = 2 * kPanelDepth;

}  // namespace

QuantRows CpuOps::quantize(const Tensor& x) {
  const QuantRows out = input_quants_.rows(x.dim(0), x.dim(1));
  quantize(x, out);
  return out;
}

void CpuOps::quantize(const Tensor& x, const QuantRows& out) {
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) { row_.quantize_row(x.row<float>(i), out, i); });
}

QuantRows CpuOps::norm_and_quantize(const NormedRows& in, std::span<const Linear> products) {
  const int64_t d = in.x.dim(1);
  const bool quantised = any_integer(products);
  const QuantRows out = quantised ? input_quants_.rows(in.x.dim(0), d) : QuantRows{};
  for_rows(in.x.dim(0), d, [&](int64_t i) {
    float* x = in.x.row<float>(i);
    if (!in.delta.empty()) {
      float* delta = in.delta.row<float>(i);
      if (!in.delta_w.empty()) row_.rms_norm_row(delta, delta, in.delta_w.ptr<float>(), d, in.eps);
      row_.add_row(x, delta, d);
    }
    row_.rms_norm_row(in.normed.row<float>(i), x, in.w.ptr<float>(), d, in.eps);
    if (quantised) row_.quantize_row(in.normed.row<float>(i), out, i);
  });
  return out;
}

void CpuOps::set_work(const Tensor& y, const Tensor& x, const QuantRows& xq, std::span<const Linear> parts) {
  work_.clear();
  int64_t column = 0;
  for (const Linear& part : parts) {
    work_.add(part, kernels_of(part), x, xq, y.columns(column, part.n_out));
    column += part.n_out;
  }
}

void CpuOps::linear(Tensor y, Tensor x, std::span<const Linear> parts) {
  check_linear(y, x, parts);
  if (x.dim(0) == 0) return;
  set_work(y, x, any_integer(parts) ? quantize(x) : QuantRows{}, parts);
  work_.run(pool_);
}

void CpuOps::gated(Tensor y, Tensor gate, Tensor up, Activation act) {
  check_same_shape(gate, up);
  check_same_shape(y, gate);
  const auto run = act == Activation::silu ? row_.silu_mul_row : row_.gelu_tanh_mul_row;
  for_rows(y.dim(0), y.dim(1),
           [&](int64_t i) { run(y.row<float>(i), gate.row<float>(i), up.row<float>(i), y.dim(1)); });
}

void CpuOps::finish_gate(int64_t begin, int64_t n, const FeedForwardPart& part, const QuantRows& xq) {
  const auto run = part.activation == Activation::silu ? row_.silu_mul_row : row_.gelu_tanh_mul_row;
  const FeedForwardScratch at(part.scratch);
  for (int64_t i = 0; i < part.scratch.dim(0); ++i) {
    float* hidden = at.hidden.row<float>(i) + begin;
    run(hidden, at.gate.row<float>(i) + begin, at.up.row<float>(i) + begin, n);
    if (xq.q != nullptr) row_.quantize_row(hidden, quant_columns(xq, i, begin, n), 0);
  }
}

void CpuOps::feed_forward(Tensor out, const NormedRows& in, const FeedForwardPart& part) {
  check_feed_forward(out, in, part);
  const int64_t n = in.x.dim(0);
  if (n == 0) return;
  const FeedForwardScratch at(part.scratch);
  const int64_t n_ff = at.hidden.dim(1);
  const QuantRows hidden = any_integer(part.down) ? inner_quants_.rows(n, n_ff) : QuantRows{};
  set_work(part.scratch, in.normed, norm_and_quantize(in, part.gate_up), part.gate_up);
  units_.reset((n_ff + kGateColumns - 1) / kGateColumns);
  work_.run(pool_, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t column = begin % n_ff;  // of gate or of up
      const int64_t first = column / kGateColumns * kGateColumns;
      const int64_t last = std::min(n_ff, first + kGateColumns);
      const int64_t some = std::min(end - begin, last - column);
      if (units_.completes(first / kGateColumns, some, 2 * (last - first)))
        finish_gate(first, last - first, part, hidden);
      begin += some;
    }
  });
  set_work(out, at.hidden, hidden, part.down);
  work_.run(pool_);
}

// The products of each expert's gathered rows of x with parts_of(expert), in one fork.
template <class Parts>
void CpuOps::run_experts(const Tensor& y, const Tensor& x, Parts&& parts_of) {
  bool quantised = false;
  for (size_t e = 0; e < routes_.n_experts(); ++e) quantised |= routes_.count(e) > 0 && any_integer(parts_of(e));
  const QuantRows xq = quantised ? quantize(x) : QuantRows{};
  const LinearKernels* kernels = nullptr;
  work_.clear();
  for (size_t e = 0; e < routes_.n_experts(); ++e) {
    if (routes_.count(e) == 0) continue;
    const Tensor mine = x.rows(routes_.begin(e), routes_.count(e));
    int64_t column = 0;
    for (const Linear& part : parts_of(e)) {
      if (kernels == nullptr || kernels->format != part.format->name) kernels = &kernels_of(part);
      const Tensor out = y.rows(routes_.begin(e), routes_.count(e)).columns(column, part.n_out);
      work_.add(part, *kernels, mine, xq.from(routes_.begin(e)), out);
      column += part.n_out;
    }
  }
  work_.run(pool_);
}

void CpuOps::moe(Tensor y, const MoeInput& in, const Experts& experts) {
  check_moe(y, in, experts);
  if (y.dim(0) == 0) return;
  routes_.make(in.router, experts.routing);
  const int64_t row_elements = y.dim(1) * experts.routing.n_used;
  const MoeScratch at(in.scratch, y.dim(1), experts.down.front().n_in);
  for_rows(y.dim(0), row_elements, [&](int64_t i) { gather_row(routes_, i, in.x, at.x); });
  run_experts(at.gate_up, at.x, [&](size_t e) { return std::span<const Linear>(experts.gate_up[e]); });
  gated(at.hidden, at.gate, at.up, experts.activation);
  run_experts(at.result, at.hidden, [&](size_t e) { return std::span(&experts.down[e], 1); });
  for_rows(y.dim(0), row_elements, [&](int64_t i) { mix_row(routes_, i, at.result, y); });
}

}  // namespace quire
