#include "backend/ref/ref_states.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace quire {
namespace {

// The state before the rows of sequence s, n numbers.
std::vector<float> state_before(const StateRows& rows, int64_t s, int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  const int32_t from = rows.from.ptr<int32_t>()[s];
  if (from >= 0) std::copy_n(rows.at(from), n, out.begin());
  return out;
}

void leave(const std::vector<float>& state, const StateRows& rows, int64_t row) {
  const int32_t to = rows.to.ptr<int32_t>()[row];
  if (to >= 0) std::copy(state.begin(), state.end(), rows.at(to));
}

struct Place {
  int64_t row, head;
};

// state [state_dim, head_dim].
void scan_row(const Tensor& y, const ScanInput& in, const ScanParams& p, const Place& at_row, float* state) {
  const auto [row, head] = at_row;
  const double sum = static_cast<double>(in.dt.row<float>(row)[head]) + p.dt_bias.ptr<float>()[head];
  const double step = sum > 20 ? sum : std::log1p(std::exp(sum));
  const double decay = std::exp(step * p.a.ptr<float>()[head]);
  const float* x = in.x.row<float>(row) + head * p.head_dim;
  const int64_t head_group = head / (p.n_heads / p.n_head_groups) * p.state_dim;
  for (int64_t i = 0; i < p.head_dim; ++i) {
    double out = static_cast<double>(p.d.ptr<float>()[head]) * x[i];
    for (int64_t s = 0; s < p.state_dim; ++s) {
      float& at = state[s * p.head_dim + i];
      const double now = at * decay + step * x[i] * in.b.row<float>(row)[head_group + s];
      at = static_cast<float>(now);
      out += now * in.c.row<float>(row)[head_group + s];
    }
    y.row<float>(row)[head * p.head_dim + i] = static_cast<float>(out);
  }
}

}  // namespace

void ref_short_conv(const Tensor& y, const Tensor& x, const ShortConv& conv, const StateRows& rows) {
  const int64_t d = x.dim(1), n_past = conv.w.dim(0) - 1;
  const int32_t* cu_q = rows.cu_q.ptr<int32_t>();
  for (int64_t s = 0; s + 1 < rows.cu_q.dim(0); ++s) {
    std::vector<float> past = state_before(rows, s, n_past * d);
    for (int64_t row = cu_q[s]; row < cu_q[s + 1]; ++row) {
      past.insert(past.end(), x.row<float>(row), x.row<float>(row) + d);
      for (int64_t i = 0; i < d; ++i) {
        double sum = conv.b.empty() ? 0.0 : conv.b.ptr<float>()[i];
        for (int64_t j = 0; j <= n_past; ++j) {
          sum += static_cast<double>(past[static_cast<size_t>(j * d + i)]) * conv.w.ptr<float>()[j * d + i];
        }
        y.row<float>(row)[i] = static_cast<float>(sum);
      }
      past.erase(past.begin(), past.begin() + d);
      leave(past, rows, row);
    }
  }
}

void ref_scan(const Tensor& y, const ScanInput& in, const ScanParams& params, const StateRows& rows) {
  const int64_t per_head = int64_t{params.head_dim} * params.state_dim;
  const int32_t* cu_q = rows.cu_q.ptr<int32_t>();
  for (int64_t s = 0; s + 1 < rows.cu_q.dim(0); ++s) {
    std::vector<float> state = state_before(rows, s, params.n_heads * per_head);
    for (int64_t row = cu_q[s]; row < cu_q[s + 1]; ++row) {
      for (int64_t h = 0; h < params.n_heads; ++h) scan_row(y, in, params, {row, h}, state.data() + h * per_head);
      leave(state, rows, row);
    }
  }
}

}  // namespace quire
