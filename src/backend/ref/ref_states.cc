#include "backend/ref/ref_states.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/softplus.h"
#include "ops/state_sizes.h"

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

// fn(Place, the head's state) for each row of each sequence, head after head.
template <class Fn>
void by_heads(const StateRows& rows, int64_t n_heads, int64_t per_head, Fn fn) {
  const int32_t* cu_q = rows.cu_q.ptr<int32_t>();
  for (int64_t s = 0; s + 1 < rows.cu_q.dim(0); ++s) {
    std::vector<float> state = state_before(rows, s, n_heads * per_head);
    for (int64_t row = cu_q[s]; row < cu_q[s + 1]; ++row) {
      for (int64_t h = 0; h < n_heads; ++h) fn(Place{row, h}, state.data() + h * per_head);
      leave(state, rows, row);
    }
  }
}

// state [state_dim, head_dim].
void scan_row(const Tensor& y, const ScanInput& in, const ScanParams& p, const Place& at_row, float* state) {
  const auto [row, head] = at_row;
  const auto step_of = [&](int64_t at) {
    return softplus(static_cast<double>(in.dt.row<float>(row)[at]) + p.dt_bias.ptr<float>()[at]);
  };
  double step = step_of(head);
  double decay = std::exp(step * p.a.ptr<float>()[head]);
  const float* x = in.x.row<float>(row) + head * p.head_dim;
  const int64_t head_group = head / (p.n_heads / p.n_head_groups) * p.state_dim;
  for (int64_t i = 0; i < p.head_dim; ++i) {
    if (p.by_component) step = step_of(i);
    double out = static_cast<double>(p.d.ptr<float>()[p.by_component ? i : head]) * x[i];
    for (int64_t s = 0; s < p.state_dim; ++s) {
      if (p.by_component) decay = std::exp(step * p.a.row<float>(s)[i]);
      float& at = state[s * p.head_dim + i];
      const double now = at * decay + step * x[i] * in.b.row<float>(row)[head_group + s];
      at = static_cast<float>(now);
      out += now * in.c.row<float>(row)[head_group + s];
    }
    y.row<float>(row)[head * p.head_dim + i] = static_cast<float>(out);
  }
}

// x [n] · scale / its length.
std::vector<double> to_length(const float* x, int64_t n, double scale) {
  double sum = kLengthEpsilon;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = x[i] * scale / std::sqrt(sum);
  return out;
}

// state [k_dim, v_dim].
void delta_row(const Tensor& y, const DeltaInput& in, const DeltaParams& p, const Place& at_row, float* state) {
  const auto [row, head] = at_row;
  const int64_t key_head = p.shares_in_turn ? head % p.n_key_heads : head / (p.n_heads / p.n_key_heads);
  const double scale = 1 / std::sqrt(static_cast<double>(p.k_dim));
  const std::vector<double> q = to_length(in.q.row<float>(row) + key_head * p.k_dim, p.k_dim, scale);
  const std::vector<double> k = to_length(in.k.row<float>(row) + key_head * p.k_dim, p.k_dim, 1);
  const double share = p.beta_scale / (1 + std::exp(-static_cast<double>(in.beta.row<float>(row)[head])));
  std::vector<double> now(static_cast<size_t>(p.k_dim));
  std::vector<double> fades;
  for (int64_t s = 0; s < p.k_dim; ++s) {
    const int64_t at = p.fades_by_component ? head * p.k_dim + s : head;
    const double sum = static_cast<double>(in.dt.row<float>(row)[at]) + p.dt_bias.ptr<float>()[at];
    fades.push_back(std::exp(softplus(sum) * p.a.ptr<float>()[head]));
  }
  for (int64_t i = 0; i < p.v_dim; ++i) {
    double said = 0, out = 0;
    for (size_t s = 0; s < now.size(); ++s) {
      now[s] = state[static_cast<int64_t>(s) * p.v_dim + i] * fades[s];
      said += now[s] * k[s];
    }
    const double added = (in.v.row<float>(row)[head * p.v_dim + i] - said) * share;
    for (size_t s = 0; s < now.size(); ++s) {
      now[s] += k[s] * added;
      state[static_cast<int64_t>(s) * p.v_dim + i] = static_cast<float>(now[s]);
      out += now[s] * q[s];
    }
    y.row<float>(row)[head * p.v_dim + i] = static_cast<float>(out);
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// What a row makes of its numbers for one head, each [dim].
struct WkvRow {
  std::vector<double> fade, key, gone, back;
};

WkvRow wkv_row(const WkvInput& in, const WkvParams& p, int64_t row, int64_t begin) {
  WkvRow out;
  double square = 0;
  for (int64_t at = begin; at < begin + p.dim; ++at) {
    const double k = in.k.row<float>(row)[at], decay = in.decay.row<float>(row)[at];
    if (!p.has_rate()) {
      out.fade.push_back(std::exp(-std::exp(decay)));
      out.key.push_back(k);
      continue;
    }
    const double share = sigmoid(in.rate.row<float>(row)[at]);
    out.fade.push_back(std::exp(-kWkvFade * sigmoid(decay)));
    out.key.push_back(k * (1 + (share - 1) * p.rate_share.ptr<float>()[at]));
    out.gone.push_back(k * p.removal_scale.ptr<float>()[at]);
    out.back.push_back(share);
    square += out.gone.back() * out.gone.back();
  }
  for (size_t i = 0; i < out.gone.size(); ++i) {
    out.gone[i] /= std::max(std::sqrt(square), kWkvLeastLength);
    out.back[i] *= out.gone[i];
  }
  return out;
}

struct WkvRows {
  const Tensor &y, &own;
  const WkvInput& in;
  const WkvParams& p;
};

// state [dim, dim].
void run_wkv_head(const WkvRows& of, const Place& at_row, float* state) {
  const auto& [y, own, in, p] = of;
  const auto [row, head] = at_row;
  const int64_t begin = head * p.dim;
  const WkvRow made = wkv_row(in, p, row, begin);
  const float* r = in.r.row<float>(row) + begin;
  double said = 0;
  for (int64_t i = 0; i < p.dim; ++i) {
    said += static_cast<double>(r[i]) * p.bonus.ptr<float>()[begin + i] * made.key[static_cast<size_t>(i)];
  }
  for (int64_t j = 0; j < p.dim; ++j) {
    const double v = in.v.row<float>(row)[begin + j];
    double removed = 0, out = 0;
    for (size_t i = 0; i < made.gone.size(); ++i) removed += made.gone[i] * state[static_cast<int64_t>(i) * p.dim + j];
    for (size_t i = 0; i < made.key.size(); ++i) {
      float& at = state[static_cast<int64_t>(i) * p.dim + j];
      double now = made.fade[i] * at + made.key[i] * v;
      if (p.has_rate()) now -= made.back[i] * removed;
      out += (p.has_rate() ? now : static_cast<double>(at)) * r[i];
      at = static_cast<float>(now);
    }
    y.row<float>(row)[begin + j] = static_cast<float>(out);
    own.row<float>(row)[begin + j] = static_cast<float>(said * v);
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
  by_heads(rows, params.n_heads, per_head, [&](const Place& at, float* state) { scan_row(y, in, params, at, state); });
}

void ref_delta_rule(const Tensor& y, const DeltaInput& in, const DeltaParams& params, const StateRows& rows) {
  const int64_t per_head = int64_t{params.k_dim} * params.v_dim;
  by_heads(rows, params.n_heads, per_head, [&](const Place& at, float* state) { delta_row(y, in, params, at, state); });
}

void ref_wkv(const Tensor& y, const Tensor& own, const WkvInput& in, const WkvParams& params, const StateRows& rows) {
  by_heads(rows, params.n_heads, int64_t{params.dim} * params.dim,
           [&](const Place& at, float* state) { run_wkv_head({y, own, in, params}, at, state); });
}

}  // namespace quire
