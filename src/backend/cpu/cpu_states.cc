// Layers that keep a state: a task is a sequence's run of columns, or one of its heads, all its rows in order.
#include "backend/cpu/cpu_backend.h"
#include "ops/op_check.h"
#include "ops/state_rows.h"

namespace quire {
namespace {

constexpr int64_t kColumns = 256;      // of a convolution's task
constexpr int64_t kScanColumns = 128;  // of a scan's with steps of their own

// Rows [begin, begin + n) of a sequence, and where its states lie.
struct SeqRows {
  SeqRows(const StateRows& rows, int64_t s)
      : begin(rows.cu_q.ptr<int32_t>()[s]),
        n(rows.cu_q.ptr<int32_t>()[s + 1] - begin),
        from(rows.from.ptr<int32_t>()[s] < 0 ? nullptr : rows.at(rows.from.ptr<int32_t>()[s])),
        to(rows.to.ptr<int32_t>() + begin) {}
  // Of a part that begins `offset` numbers into a state.
  StateTask task(const StateRows& rows, int64_t offset) const {
    return {reinterpret_cast<std::byte*>(rows.at(0) + offset), rows.view.block_bytes,
            from == nullptr ? nullptr : from + offset, to, n};
  }
  int64_t begin, n;
  const float* from;
  const int32_t* to;
};

}  // namespace

void CpuOps::short_conv(Tensor y, Tensor x, const ShortConv& conv, const StateRows& rows) {
  check_short_conv(y, x, conv, rows);
  const int64_t d = x.dim(1), n_runs = (d + kColumns - 1) / kColumns;
  pool_.run((rows.cu_q.dim(0) - 1) * n_runs, [&](int64_t i) {
    const SeqRows seq(rows, i / n_runs);
    const int64_t column = i % n_runs * kColumns;
    ConvTask task{seq.task(rows, column)};
    task.x = x.row<float>(seq.begin) + column;
    task.x_stride = x.stride[0];
    task.y = y.row<float>(seq.begin) + column;
    task.y_stride = y.stride[0];
    task.d = std::min(kColumns, d - column);
    task.n_taps = static_cast<int>(conv.w.dim(0));
    task.w = conv.w.ptr<float>() + column;
    task.state_stride = d;
    task.b = conv.b.empty() ? nullptr : conv.b.ptr<float>() + column;
    states_.conv(task);
  });
}

// A task makes the steps of its own columns: of few rows, as when one sequence decodes, they are most of the work.
void CpuOps::scan_columns(const Tensor& y, const ScanInput& in, const ScanParams& params, const StateRows& rows) {
  const int64_t d = params.head_dim, n_runs = (d + kScanColumns - 1) / kScanColumns;
  steps_.resize(static_cast<size_t>(d * in.dt.dim(0)));
  pool_.run((rows.cu_q.dim(0) - 1) * n_runs, [&](int64_t i) {
    const SeqRows seq(rows, i / n_runs);
    const int64_t column = i % n_runs * kScanColumns;
    ColumnScanTask task{seq.task(rows, column)};
    task.d = std::min(kScanColumns, d - column);
    float* steps = steps_.data() + seq.begin * d + column;
    for (int64_t row = 0; row < seq.n; ++row) {
      make_scan_steps(in, params, {seq.begin + row, column}, task.d, steps + row * d);
    }
    task.x = in.x.row<float>(seq.begin) + column;
    task.x_stride = in.x.stride[0];
    task.b = in.b.row<float>(seq.begin);
    task.b_stride = in.b.stride[0];
    task.c = in.c.row<float>(seq.begin);
    task.c_stride = in.c.stride[0];
    task.steps = steps;
    task.steps_stride = d;
    task.a = params.a.ptr<float>() + column;
    task.skip = params.d.ptr<float>() + column;
    task.y = y.row<float>(seq.begin) + column;
    task.y_stride = y.stride[0];
    task.state_dim = params.state_dim;
    task.state_stride = d;
    states_.scan_columns(task);
  });
}

void CpuOps::scan(Tensor y, const ScanInput& in, const ScanParams& params, const StateRows& rows) {
  check_scan(y, in, params, rows);
  if (params.by_component) return scan_columns(y, in, params, rows);
  const int64_t n_heads = params.n_heads, head_dim = params.head_dim, state_dim = params.state_dim;
  steps_.resize(static_cast<size_t>(2 * n_heads * in.dt.dim(0)));
  for_rows(in.dt.dim(0), 64 * n_heads,
           [&](int64_t i) { make_scan_row(in, params, i, steps_.data() + 2 * i * n_heads); });
  pool_.run((rows.cu_q.dim(0) - 1) * n_heads, [&](int64_t i) {
    const SeqRows seq(rows, i / n_heads);
    const int64_t head = i % n_heads;
    const int64_t head_group = head / (n_heads / params.n_head_groups);
    ScanTask task{seq.task(rows, head * head_dim * state_dim)};
    task.x = in.x.row<float>(seq.begin) + head * head_dim;
    task.x_stride = in.x.stride[0];
    task.b = in.b.row<float>(seq.begin) + head_group * state_dim;
    task.b_stride = in.b.stride[0];
    task.c = in.c.row<float>(seq.begin) + head_group * state_dim;
    task.c_stride = in.c.stride[0];
    task.steps = steps_.data() + 2 * (seq.begin * n_heads + head);
    task.steps_stride = 2 * n_heads;
    task.skip = params.d.ptr<float>()[head];
    task.y = y.row<float>(seq.begin) + head * head_dim;
    task.y_stride = y.stride[0];
    task.head_dim = static_cast<int>(head_dim);
    task.state_dim = static_cast<int>(state_dim);
    states_.scan(task);
  });
}

void CpuOps::delta_rule(Tensor y, const DeltaInput& in, const DeltaParams& params, const StateRows& rows) {
  check_delta_rule(y, in, params, rows);
  const int64_t n_heads = params.n_heads, per_head = int64_t{params.k_dim} * params.v_dim;
  const DeltaRow made(params);
  steps_.resize(static_cast<size_t>(in.v.dim(0) * made.stride));
  for_rows(in.v.dim(0), 8 * made.n_keys + 64 * made.n_fades,
           [&](int64_t i) { make_delta_row(in, params, i, steps_.data() + i * made.stride); });
  pool_.run((rows.cu_q.dim(0) - 1) * n_heads, [&](int64_t i) {
    const SeqRows seq(rows, i / n_heads);
    const int64_t head = i % n_heads, n_sharing = n_heads / params.n_key_heads;
    const int64_t key_head = params.shares_in_turn ? head % params.n_key_heads : head / n_sharing;
    const float* at = steps_.data() + seq.begin * made.stride;
    DeltaTask task{seq.task(rows, head * per_head)};
    task.q = at + made.q(key_head);
    task.k = at + made.k(key_head);
    task.fades = at + made.fades(head, n_heads);
    task.share = at + made.share(head);
    task.made_stride = made.stride;
    task.fade_stride = params.fades_by_component ? 1 : 0;
    task.v = in.v.row<float>(seq.begin) + head * params.v_dim;
    task.v_stride = in.v.stride[0];
    task.y = y.row<float>(seq.begin) + head * params.v_dim;
    task.y_stride = y.stride[0];
    task.k_dim = params.k_dim;
    task.v_dim = params.v_dim;
    states_.delta_rule(task);
  });
}

void CpuOps::wkv(Tensor y, Tensor own, const WkvInput& in, const WkvParams& params, const StateRows& rows) {
  check_wkv(y, own, in, params, rows);
  const int64_t n_heads = params.n_heads, dim = params.dim, n_made = n_made_of(params);
  steps_.resize(static_cast<size_t>(y.dim(0) * n_heads * n_made));
  for_rows(y.dim(0) * n_heads, 64 * dim, [&](int64_t i) {
    const int64_t row = i / n_heads, begin = i % n_heads * dim;
    make_wkv_head(in, params, {row, begin}, steps_.data() + i * n_made, own.row<float>(row) + begin);
  });
  pool_.run((rows.cu_q.dim(0) - 1) * n_heads, [&](int64_t i) {
    const SeqRows seq(rows, i / n_heads);
    const int64_t head = i % n_heads;
    WkvTask task{seq.task(rows, head * dim * dim)};
    task.r = in.r.row<float>(seq.begin) + head * dim;
    task.r_stride = in.r.stride[0];
    task.v = in.v.row<float>(seq.begin) + head * dim;
    task.v_stride = in.v.stride[0];
    task.made = steps_.data() + (seq.begin * n_heads + head) * n_made;
    task.made_stride = n_heads * n_made;
    task.has_rate = params.has_rate();
    task.y = y.row<float>(seq.begin) + head * dim;
    task.y_stride = y.stride[0];
    task.dim = static_cast<int>(dim);
    states_.wkv(task);
  });
}

}  // namespace quire
