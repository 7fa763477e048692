// Layers that keep a state: a task is a sequence's run of columns, or one of its heads, all its rows in order.
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "ops/op_check.h"

namespace quire {
namespace {

constexpr int64_t kColumns = 256;  // of a convolution's task

// Rows [begin, begin + n) of a sequence, and where its states lie.
struct SeqRows {
  SeqRows(const StateRows& rows, int64_t s)
      : begin(rows.cu_q.ptr<int32_t>()[s]),
        n(rows.cu_q.ptr<int32_t>()[s + 1] - begin),
        from(rows.from.ptr<int32_t>()[s] < 0 ? nullptr : rows.at(rows.from.ptr<int32_t>()[s])),
        to(rows.to.ptr<int32_t>() + begin) {}
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
    ConvTask task;
    task.states = reinterpret_cast<std::byte*>(rows.at(0) + column);
    task.block_bytes = rows.view.block_bytes;
    task.from = seq.from == nullptr ? nullptr : seq.from + column;
    task.to = seq.to;
    task.n = seq.n;
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

void CpuOps::scan(Tensor y, const ScanInput& in, const ScanParams& params, const StateRows& rows) {
  check_scan(y, in, params, rows);
  const int64_t n_heads = params.n_heads, head_dim = params.head_dim, state_dim = params.state_dim;
  steps_.resize(static_cast<size_t>(2 * n_heads * in.dt.dim(0)));
  for_rows(in.dt.dim(0), 64 * n_heads, [&](int64_t i) {
    for (int64_t h = 0; h < n_heads; ++h) {
      float* at = steps_.data() + 2 * (i * n_heads + h);
      const double sum = static_cast<double>(in.dt.row<float>(i)[h]) + params.dt_bias.ptr<float>()[h];
      at[0] = static_cast<float>(sum > 20 ? sum : std::log1p(std::exp(sum)));
      at[1] = static_cast<float>(std::exp(static_cast<double>(at[0]) * params.a.ptr<float>()[h]));
    }
  });
  pool_.run((rows.cu_q.dim(0) - 1) * n_heads, [&](int64_t i) {
    const SeqRows seq(rows, i / n_heads);
    const int64_t head = i % n_heads;
    const int64_t head_group = head / (n_heads / params.n_head_groups);
    ScanTask task;
    task.states = reinterpret_cast<std::byte*>(rows.at(0) + head * head_dim * state_dim);
    task.block_bytes = rows.view.block_bytes;
    task.from = seq.from == nullptr ? nullptr : seq.from + head * head_dim * state_dim;
    task.to = seq.to;
    task.n = seq.n;
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

}  // namespace quire
