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

// Rows of activations go to several experts, each with an order of its own.
bool has_order(const Experts& experts) {
  const auto is_ordered = [](const Linear& w) { return !w.order.empty(); };
  return std::ranges::any_of(experts.down, is_ordered) ||
         std::ranges::any_of(experts.gate_up, [&](const auto& pair) { return std::ranges::any_of(pair, is_ordered); });
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

void CpuOps::make_room_in_order(const Tensor& order) {
  if (order.empty()) return;
  const auto n = static_cast<size_t>(pool_.n_threads() * Arena::row_stride(order.dim(0)));
  if (ordered_.size() < n) ordered_.resize(n);
}

const float* CpuOps::in_order(const float* x, const Tensor& order, int thread) {
  if (order.empty()) return x;
  float* out = ordered_.data() + thread * Arena::row_stride(order.dim(0));
  const int32_t* from = order.ptr<int32_t>();
  for (int64_t j = 0; j < order.dim(0); ++j) out[j] = x[from[j]];
  return out;
}

void CpuOps::quantize(const Tensor& x, const QuantRows& out, const Tensor& order) {
  make_room_in_order(order);
  for_rows(x.dim(0), x.dim(1), [&](int64_t i, int thread) {
    row_.quantize_row(in_order(x.row<float>(i), order, thread), x.dim(1), out, i);
  });
}

QuantRows CpuOps::norm_and_quantize(const NormedRows& in, std::span<const Linear> products) {
  const int64_t d = in.x.dim(1);
  const QuantRows out = quant_rows(input_quants_, in.x.dim(0), products);
  const Tensor& order = products.front().order;
  make_room_in_order(order);
  for_rows(in.x.dim(0), d, [&](int64_t i, int thread) {
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
    if (!out.empty()) row_.quantize_row(in_order(to, order, thread), d, out, i);
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
  int64_t column = 0;
  while (!parts.empty()) {
    const size_t n = n_same_order(parts);
    const std::span<const Linear> some = parts.first(n);
    int64_t n_columns = 0;
    for (const Linear& part : some) n_columns += part.n_out;
    const QuantRows xq = quant_rows(input_quants_, x.dim(0), some);
    if (!xq.empty()) quantize(x, xq, some.front().order);
    set_work(y.columns(column, n_columns), x, xq, some);
    work_.run(pool_);
    column += n_columns;
    parts = parts.subspan(n);
  }
}

void CpuOps::add_low_rank(Tensor y, Tensor x, const AddedProducts& added) {
  check_add_low_rank(y, x, added);
  set_low_rank(added, x);
  if (low_rank_.empty()) return;
  constexpr int64_t kColumns = 8192;  // a row of logits is several tasks
  const int64_t n_runs = (y.dim(1) + kColumns - 1) / kColumns;
  for_rows(y.dim(0) * n_runs, std::min(kColumns, y.dim(1)), [&](int64_t task) {
    const int64_t row = task / n_runs, begin = task % n_runs * kColumns;
    low_rank_.add_to(columns_of(y, {begin, std::min(y.dim(1), begin + kColumns), row, row + 1}));
  });
}

void CpuOps::last_product(const Tensor& out,
                          const Tensor& x,
                          const QuantRows& xq,
                          std::span<const Linear> parts,
                          const AddedProducts& added) {
  set_low_rank(added, x);
  set_work(out, x, xq, parts);
  run_work(out, [](const LinearWork::Done&) {});
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
  if (!low_rank_.empty()) {
    const int64_t end_row = unit.first_row + unit.n_rows, end = unit.begin + unit.n_columns, n_ff = to.rows.dim(1);
    low_rank_.add_to({unit.begin, end, unit.first_row, end_row, unit.first_gate, unit.stride});
    low_rank_.add_to({n_ff + unit.begin, n_ff + end, unit.first_row, end_row, unit.first_up, unit.stride});
  }
  for (int64_t i = 0; i < unit.n_rows; ++i) {
    const int64_t row = unit.first_row + i;
    float* hidden = to.is_kept ? to.rows.row<float>(row) + unit.begin : unit.gate(i);
    run(hidden, unit.gate(i), unit.up(i), unit.n_columns);
    if (!to.quants.empty()) {
      row_.quantize_row(hidden, unit.n_columns, to.quants.columns(row, unit.begin, unit.n_columns), 0);
    }
  }
}

void CpuOps::ask_for_gate(const GatedWork::Columns& of, int64_t n_ff) const {
  for (const int64_t first : {int64_t{0}, n_ff}) {
    low_rank_.ask_for({first + of.begin, first + of.end, of.first_row, of.end_row, nullptr, 0});
  }
}

void CpuOps::feed_forward(Tensor out, const NormedRows& in, const FeedForwardPart& part) {
  if (part.gate_up.size() == 1 || n_same_order(part.gate_up) < 2) return Ops::feed_forward(out, in, part);
  check_feed_forward(out, in, part);
  const int64_t n = in.x.dim(0);
  if (n == 0) return;
  const Linear &gate = part.gate_up[0], &up = part.gate_up[1];
  const Tensor rows = FeedForwardScratch(part.scratch, true).hidden;
  const QuantRows down_quants = quant_rows(inner_quants_, n, part.down);
  const Tensor& order = part.down.front().order;
  const bool is_whole = !order.empty();  // in an order of its own a row is quantised when all of it is there
  const bool is_kept = is_whole || is_read_itself(part.down) || !part.adapters.empty();
  const Hidden hidden{rows, is_kept, is_whole ? QuantRows{} : down_quants};
  const QuantRows quants = norm_and_quantize(in, part.gate_up);
  set_low_rank(part.added_gate_up(), in.input());
  gated_work_.clear();
  gated_work_.add(gate, kernels_of(gate), up, kernels_of(up), {in.input(), quants});
  const auto finish = [&](const GatedUnit& unit) { finish_gate(unit, part.activation, hidden); };
  if (low_rank_.empty()) {
    gated_work_.run(pool_, finish);
  } else {
    gated_work_.run(pool_, [&](const GatedWork::Columns& at) { ask_for_gate(at, gate.n_out); }, finish);
  }
  if (is_whole) quantize(rows, down_quants, order);
  last_product(out, rows, down_quants, part.down, part.added_down());
}

void CpuOps::moe(Tensor y, const MoeInput& in, const Experts& experts) {
  check_moe(y, in, experts);
  if (y.dim(0) == 0) return;
  if (!experts.has_gate || (keeps_orders() && has_order(experts))) return moe_by_expert(*this, y, in, experts);
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
  set_low_rank({}, in.x);  // experts have none
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
