// Layers that keep a state: a task is a sequence's run of columns, or one of its heads, all its rows in order.
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "ops/op_check.h"
#include "ops/softplus.h"
#include "ops/state_sizes.h"

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

// What a delta rule makes of a row, one behind the other in `at`: of each key head q and k, of each head its fades, of
// each head its share.
struct DeltaRow {
  explicit DeltaRow(const DeltaParams& p)
      : k_dim(p.k_dim),
        n_keys(2 * int64_t{p.n_key_heads} * p.k_dim),
        n_fades(p.n_fades()),
        stride(n_keys + n_fades + p.n_heads) {}
  int64_t q(int64_t key_head) const { return 2 * key_head * k_dim; }
  int64_t k(int64_t key_head) const { return q(key_head) + k_dim; }
  int64_t fades(int64_t head, int64_t n_heads) const { return n_keys + head * (n_fades / n_heads); }
  int64_t share(int64_t head) const { return n_keys + n_fades + head; }
  int64_t k_dim, n_keys, n_fades, stride;
};

// out [n] = x · scale / its length.
void to_length(const float* x, int64_t n, double scale, float* out) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  const double factor = scale / std::sqrt(sum + kLengthEpsilon);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(x[i] * factor);
}

void make_delta_row(const DeltaInput& in, const DeltaParams& p, int64_t row, float* at) {
  const DeltaRow made(p);
  const double scale = 1 / std::sqrt(static_cast<double>(p.k_dim));
  for (int64_t h = 0; h < p.n_key_heads; ++h) {
    to_length(in.q.row<float>(row) + h * p.k_dim, p.k_dim, scale, at + made.q(h));
    to_length(in.k.row<float>(row) + h * p.k_dim, p.k_dim, 1, at + made.k(h));
  }
  const int64_t n_of_head = made.n_fades / p.n_heads;
  for (int64_t i = 0; i < made.n_fades; ++i) {
    const double sum = static_cast<double>(in.dt.row<float>(row)[i]) + p.dt_bias.ptr<float>()[i];
    at[made.n_keys + i] = static_cast<float>(std::exp(softplus(sum) * p.a.ptr<float>()[i / n_of_head]));
  }
  for (int64_t h = 0; h < p.n_heads; ++h) {
    at[made.share(h)] =
        static_cast<float>(p.beta_scale / (1 + std::exp(-static_cast<double>(in.beta.row<float>(row)[h]))));
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct WkvPlace {
  int64_t row, begin;
};

// What RWKV's recurrence makes of a head's numbers of a row, which begin at a column: fade | key | gone | back in `at`,
// the last with their sign changed, and what the row says of its own value.
void make_wkv_head(const WkvInput& in, const WkvParams& p, const WkvPlace& of, float* at, float* own) {
  const auto [row, begin] = of;
  const float* r = in.r.row<float>(row) + begin;
  const float* k = in.k.row<float>(row) + begin;
  const float* v = in.v.row<float>(row) + begin;
  const float* decay = in.decay.row<float>(row) + begin;
  const float* bonus = p.bonus.ptr<float>() + begin;
  const int64_t dim = p.dim;
  double square = 0, said = 0;
  for (int64_t i = 0; p.has_rate() && i < dim; ++i) {
    const double gone = static_cast<double>(k[i]) * p.removal_scale.ptr<float>()[begin + i];
    square += gone * gone;
  }
  const double length = std::max(std::sqrt(square), kWkvLeastLength);
  for (int64_t i = 0; i < dim; ++i) {
    double key = k[i];
    if (p.has_rate()) {
      const double share = sigmoid(in.rate.row<float>(row)[begin + i]);
      const double gone = key * p.removal_scale.ptr<float>()[begin + i] / length;
      key *= 1 + (share - 1) * p.rate_share.ptr<float>()[begin + i];
      at[i] = static_cast<float>(std::exp(-kWkvFade * sigmoid(decay[i])));
      at[2 * dim + i] = static_cast<float>(gone);
      at[3 * dim + i] = static_cast<float>(-gone * share);
    } else {
      at[i] = static_cast<float>(std::exp(-std::exp(static_cast<double>(decay[i]))));
    }
    at[dim + i] = static_cast<float>(key);
    said += static_cast<double>(r[i]) * bonus[i] * key;
  }
  for (int64_t i = 0; i < dim; ++i) own[i] = static_cast<float>(said * v[i]);
}

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
      for (int64_t k = 0; k < task.d; ++k) {
        const double sum = static_cast<double>(in.dt.row<float>(seq.begin + row)[column + k]) +
                           params.dt_bias.ptr<float>()[column + k];
        steps[row * d + k] = static_cast<float>(softplus(sum));
      }
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
  for_rows(in.dt.dim(0), 64 * n_heads, [&](int64_t i) {
    for (int64_t h = 0; h < n_heads; ++h) {
      float* at = steps_.data() + 2 * (i * n_heads + h);
      const double sum = static_cast<double>(in.dt.row<float>(i)[h]) + params.dt_bias.ptr<float>()[h];
      at[0] = static_cast<float>(softplus(sum));
      at[1] = static_cast<float>(std::exp(static_cast<double>(at[0]) * params.a.ptr<float>()[h]));
    }
  });
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
  const int64_t n_heads = params.n_heads, dim = params.dim, n_made = (params.has_rate() ? 4 : 2) * dim;
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
