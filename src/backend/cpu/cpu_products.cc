// Products, and what stands between two of them: norms, quantising, gates, experts.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "ops/op_check.h"

namespace quire {
namespace {

bool is_read_itself(std::span<const Linear> products) {
  return std::any_of(products.begin(), products.end(),
                     [](const Linear& w) { return !w.format->integer && !w.format->rounded; });
}

}  // namespace

QuantRows CpuOps::quant_rows(QuantBuffer& buffer, int64_t n, std::span<const Linear> products) const {
  QuantBuffer::Forms forms{.only_tiles = true};
  for (const Linear& part : products) {
    forms.add(*part.format);
    forms.only_tiles &= !part.format->integer || part.n_in <= kernels_of(part).most_tiled;
  }
  return buffer.rows(n, products.front().n_in, forms);
}

void CpuOps::quantize(const Tensor& x, const QuantRows& out) {
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) { row_.quantize_row(x.row<float>(i), x.dim(1), out, i); });
}

QuantRows CpuOps::norm_and_quantize(const NormedRows& in, std::span<const Linear> products) {
  const int64_t d = in.x.dim(1);
  const QuantRows out = quant_rows(input_quants_, in.x.dim(0), products);
  for_rows(in.x.dim(0), d, [&](int64_t i) {
    float* x = in.x.row<float>(i);
    if (!in.delta.empty()) {
      float* delta = in.delta.row<float>(i);
      if (!in.delta_w.empty()) row_.rms_norm_row(delta, delta, in.delta_w.ptr<float>(), d, in.eps);
      row_.add_row(x, delta, d);
    }
    float* to = in.normed.row<float>(i);
    if (in.w.empty()) {
      to = x;
    } else if (in.kind == NormKind::rms) {
      row_.rms_norm_row(to, x, in.w.ptr<float>(), d, in.eps);
    } else {
      row_.layer_norm_row(to, x, d, {in.w.ptr<float>(), in.b.empty() ? nullptr : in.b.ptr<float>(), in.eps});
    }
    if (!out.empty()) row_.quantize_row(to, d, out, i);
  });
  return out;
}

void CpuOps::set_work(const Tensor& y, const Tensor& x, const QuantRows& xq, std::span<const Linear> parts) {
  work_.clear();
  int64_t column = 0;
  for (const Linear& part : parts) {
    work_.add(part, kernels_of(part), {x, xq}, y.columns(column, part.n_out));
    column += part.n_out;
  }
}

void CpuOps::linear(Tensor y, Tensor x, std::span<const Linear> parts) {
  check_linear(y, x, parts);
  if (x.dim(0) == 0) return;
  const QuantRows xq = quant_rows(input_quants_, x.dim(0), parts);
  if (!xq.empty()) quantize(x, xq);
  set_work(y, x, xq, parts);
  work_.run(pool_);
}

void CpuOps::gated(Tensor y, Tensor gate, Tensor up, Activation act) {
  check_gated(y, gate, up, act);
  const auto run = row_.gated_row[static_cast<size_t>(act)];
  for_rows(y.dim(0), y.dim(1), [&](int64_t i) {
    run(y.row<float>(i), gate.row<float>(i), up.empty() ? nullptr : up.row<float>(i), y.dim(1));
  });
}

void CpuOps::finish_gate(const GatedUnit& unit, Activation activation, const Hidden& to) {
  const auto run = row_.gated_row[static_cast<size_t>(activation)];
  for (int64_t i = 0; i < unit.n_rows; ++i) {
    const int64_t row = unit.first_row + i;
    float* hidden = to.is_kept ? to.rows.row<float>(row) + unit.begin : unit.gate(i);
    run(hidden, unit.gate(i), unit.up(i), unit.n_columns);
    if (!to.quants.empty()) {
      row_.quantize_row(hidden, unit.n_columns, to.quants.columns(row, unit.begin, unit.n_columns), 0);
    }
  }
}

void CpuOps::feed_forward(Tensor out, const NormedRows& in, const FeedForwardPart& part) {
  if (part.gate_up.size() == 1) return Ops::feed_forward(out, in, part);
  check_feed_forward(out, in, part);
  const int64_t n = in.x.dim(0);
  if (n == 0) return;
  const Linear &gate = part.gate_up[0], &up = part.gate_up[1];
  const Tensor rows = FeedForwardScratch(part.scratch, true).hidden;
  const Hidden hidden{rows, is_read_itself(part.down), quant_rows(inner_quants_, n, part.down)};
  gated_work_.clear();
  gated_work_.add(gate, kernels_of(gate), up, kernels_of(up), {in.input(), norm_and_quantize(in, part.gate_up)});
  gated_work_.run(pool_, [&](const GatedUnit& unit) { finish_gate(unit, part.activation, hidden); });
  set_work(out, rows, hidden.quants, part.down);
  work_.run(pool_);
}

void CpuOps::moe(Tensor y, const MoeInput& in, const Experts& experts) {
  check_moe(y, in, experts);
  if (y.dim(0) == 0) return;
  routes_.make(in.router, experts.routing, experts.choice_bias);
  chosen_.clear();
  QuantBuffer::Forms x_forms, hidden_forms;
  for (size_t e = 0; e < routes_.n_experts(); ++e) {
    if (routes_.count(e) == 0) continue;
    chosen_.push_back(e);
    for (const Linear& part : experts.gate_up[e]) x_forms.add(*part.format);
    hidden_forms.add(*experts.down[e].format);
  }
  const int64_t n_ff = experts.down.front().n_in;
  const MoeScratch at(in.scratch, y.dim(1), n_ff);
  const int64_t n_rows = at.x.dim(0);
  const QuantRows xq = input_quants_.rows(n_rows, y.dim(1), x_forms);
  const QuantRows hidden = inner_quants_.rows(n_rows, n_ff, hidden_forms);

  const int64_t row_elements = y.dim(1) * experts.routing.n_used;
  for_rows(y.dim(0), row_elements, [&](int64_t i) {
    if (x_forms.itself) gather_row(routes_, i, in.x, at.x);
    if (xq.empty()) return;
    const int64_t first = routes_.place(i, 0);
    row_.quantize_row(in.x.row<float>(i), y.dim(1), xq, first);
    for (int j = 1; j < experts.routing.n_used; ++j) xq.copy_row(first, routes_.place(i, j));
  });
  const auto mine = [&](const Tensor& t, size_t e) { return t.rows(routes_.begin(e), routes_.count(e)); };
  gated_work_.clear();
  for (const size_t e : chosen_) {
    const auto& [gate, up] = experts.gate_up[e];
    gated_work_.add(gate, kernels_of(gate), up, kernels_of(up), {mine(at.x, e), xq.from(routes_.begin(e))});
  }
  gated_work_.run(pool_, [&](const GatedUnit& unit) {
    const size_t e = chosen_[static_cast<size_t>(unit.pair)];
    finish_gate(unit, experts.activation, {mine(at.hidden, e), hidden_forms.itself, hidden.from(routes_.begin(e))});
  });
  work_.clear();
  for (const size_t e : chosen_) {
    const Linear& down = experts.down[e];
    work_.add(down, kernels_of(down), {mine(at.hidden, e), hidden.from(routes_.begin(e))}, mine(at.result, e));
  }
  work_.run(pool_);
  for_rows(y.dim(0), row_elements, [&](int64_t i) {
    row_.mix_row(y.row<float>(i), y.dim(1),
                 {.rows = at.result.ptr<float>(),
                  .stride = at.result.stride[0],
                  .places = routes_.places(i),
                  .shares = routes_.shares(i),
                  .n = routes_.n_used()});
  });
}

}  // namespace quire
