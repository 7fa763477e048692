// Products, and what stands between two of them: norms, quantising, gates, experts.
#include "backend/cpu/cpu_backend.h"
#include "ops/op_check.h"

namespace quire {
namespace {

// Columns of a gated unit that go on together: whole groups, few enough that the last of them are never far behind.
constexpr int64_t kGateColumns = 2 * kPanelDepth;
constexpr int64_t kRowsAhead = 4;  // that are asked for

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
    row_.rms_norm_row(in.normed.row<float>(i), x, in.w.ptr<float>(), d, in.eps);
    if (!out.empty()) row_.quantize_row(in.normed.row<float>(i), d, out, i);
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
  const QuantRows xq = quant_rows(input_quants_, x.dim(0), parts);
  if (!xq.empty()) quantize(x, xq);
  set_work(y, x, xq, parts);
  work_.run(pool_);
}

void CpuOps::gated(Tensor y, Tensor gate, Tensor up, Activation act) {
  check_same_shape(gate, up);
  check_same_shape(y, gate);
  const auto run = act == Activation::silu ? row_.silu_mul_row : row_.gelu_tanh_mul_row;
  for_rows(y.dim(0), y.dim(1),
           [&](int64_t i) { run(y.row<float>(i), gate.row<float>(i), up.row<float>(i), y.dim(1)); });
}

void CpuOps::finish_gate(const GatedRows& rows, int64_t begin, int64_t n, const QuantRows& xq) {
  const auto run = rows.activation == Activation::silu ? row_.silu_mul_row : row_.gelu_tanh_mul_row;
  const int64_t n_rows = rows.hidden.dim(0);
  for (int64_t i = 0; i < n_rows; ++i) {
    // Rows are pages apart, where the machine's own prefetcher sees no sequence.
    for (int64_t k = 0; i + kRowsAhead < n_rows && k < n; k += 16) {
      __builtin_prefetch(rows.gate.row<float>(i + kRowsAhead) + begin + k, 1);
      __builtin_prefetch(rows.up.row<float>(i + kRowsAhead) + begin + k);
    }
    float* hidden = rows.hidden.row<float>(i) + begin;
    run(hidden, rows.gate.row<float>(i) + begin, rows.up.row<float>(i) + begin, n);
    if (!xq.empty()) row_.quantize_row(hidden, n, xq.columns(i, begin, n), 0);
  }
}

template <class Finish>
void CpuOps::run_gated(int64_t n_pairs, int64_t n_ff, Finish&& finish) {
  const int64_t n_units = (n_ff + kGateColumns - 1) / kGateColumns;  // of a pair
  units_.reset(n_pairs * n_units);
  work_.run(pool_, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t pair = begin / (2 * n_ff);
      const int64_t column = begin % n_ff;  // of gate or of up
      const int64_t first = column / kGateColumns * kGateColumns;
      const int64_t last = std::min(n_ff, first + kGateColumns);
      const int64_t some = std::min(end - begin, last - column);
      const int64_t unit = pair * n_units + first / kGateColumns;
      if (units_.completes(unit, some, 2 * (last - first))) finish(pair, first, last - first);
      begin += some;
    }
  });
}

void CpuOps::feed_forward(Tensor out, const NormedRows& in, const FeedForwardPart& part) {
  check_feed_forward(out, in, part);
  const int64_t n = in.x.dim(0);
  if (n == 0) return;
  const FeedForwardScratch at(part.scratch);
  const int64_t n_ff = at.hidden.dim(1);
  const QuantRows hidden = quant_rows(inner_quants_, n, part.down);
  set_work(part.scratch, in.normed, norm_and_quantize(in, part.gate_up), part.gate_up);
  run_gated(1, n_ff, [&](int64_t, int64_t begin, int64_t n_columns) {
    finish_gate({at.gate, at.up, at.hidden, part.activation}, begin, n_columns, hidden);
  });
  set_work(out, at.hidden, hidden, part.down);
  work_.run(pool_);
}

// The products of each chosen expert's gathered rows of x with parts_of(expert), ready to run.
template <class Parts>
void CpuOps::set_experts(const Tensor& y, const Tensor& x, const QuantRows& xq, Parts&& parts_of) {
  const LinearKernels* kernels = nullptr;
  work_.clear();
  for (const size_t e : chosen_) {
    const Tensor mine = x.rows(routes_.begin(e), routes_.count(e));
    int64_t column = 0;
    for (const Linear& part : parts_of(e)) {
      if (kernels == nullptr || kernels->format != part.format->name) kernels = &kernels_of(part);
      const Tensor out = y.rows(routes_.begin(e), routes_.count(e)).columns(column, part.n_out);
      work_.add(part, *kernels, mine, xq.from(routes_.begin(e)), out);
      column += part.n_out;
    }
  }
}

void CpuOps::moe(Tensor y, const MoeInput& in, const Experts& experts) {
  check_moe(y, in, experts);
  if (y.dim(0) == 0) return;
  routes_.make(in.router, experts.routing);
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
  set_experts(at.gate_up, at.x, xq, [&](size_t e) { return std::span<const Linear>(experts.gate_up[e]); });
  run_gated(static_cast<int64_t>(chosen_.size()), n_ff, [&](int64_t pair, int64_t begin, int64_t n_columns) {
    const size_t e = chosen_[static_cast<size_t>(pair)];
    const auto mine = [&](const Tensor& t) { return t.rows(routes_.begin(e), routes_.count(e)); };
    finish_gate({mine(at.gate), mine(at.up), mine(at.hidden), experts.activation}, begin, n_columns,
                hidden.from(routes_.begin(e)));
  });
  set_experts(at.result, at.hidden, hidden, [&](size_t e) { return std::span(&experts.down[e], 1); });
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
