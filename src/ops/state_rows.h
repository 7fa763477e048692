// What a row of a layer that keeps a state becomes before its recurrence, in double and rounded once (docs/numerics.md,
// "Layers that keep a state"). One definition for all backends: each makes these numbers on the host. Not for kernels:
// it calls the C library. Shapes are those of the ops, which have been checked; `at` has room for what is said.
#pragma once
#include <algorithm>
#include <cmath>

#include "ops/operands.h"
#include "ops/softplus.h"
#include "ops/state_sizes.h"

namespace quire {

// Columns from `begin` on of a row.
struct RowPlace {
  int64_t row, begin;
};

// Of a scan by components the steps of n of them.
inline void make_scan_steps(const ScanInput& in, const ScanParams& p, const RowPlace& of, int64_t n, float* at) {
  const float* dt = in.dt.row<float>(of.row) + of.begin;
  const float* bias = p.dt_bias.ptr<float>() + of.begin;
  for (int64_t i = 0; i < n; ++i) at[i] = static_cast<float>(softplus(static_cast<double>(dt[i]) + bias[i]));
}

// Of a scan by heads of each its step and what its state fades by: at [n_heads, 2].
inline void make_scan_row(const ScanInput& in, const ScanParams& p, int64_t row, float* at) {
  for (int64_t h = 0; h < p.n_heads; ++h) {
    make_scan_steps(in, p, {row, h}, 1, at + 2 * h);
    at[2 * h + 1] = static_cast<float>(std::exp(static_cast<double>(at[2 * h]) * p.a.ptr<float>()[h]));
  }
}

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
inline void to_length(const float* x, int64_t n, double scale, float* out) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  const double factor = scale / std::sqrt(sum + kLengthEpsilon);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(x[i] * factor);
}

inline void make_delta_row(const DeltaInput& in, const DeltaParams& p, int64_t row, float* at) {
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

inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// Numbers that RWKV's recurrence makes of a row of a head.
inline int64_t n_made_of(const WkvParams& p) { return int64_t{p.has_rate() ? 4 : 2} * p.dim; }

// What RWKV's recurrence makes of a head's numbers of a row, which begin at a column: fade | key | gone | back in `at`,
// the last with their sign changed, and what the row says of its own value.
inline void make_wkv_head(const WkvInput& in, const WkvParams& p, const RowPlace& of, float* at, float* own) {
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
      const double share = sigmoid_of(in.rate.row<float>(row)[begin + i]);
      const double gone = key * p.removal_scale.ptr<float>()[begin + i] / length;
      key *= 1 + (share - 1) * p.rate_share.ptr<float>()[begin + i];
      at[i] = static_cast<float>(std::exp(-kWkvFade * sigmoid_of(decay[i])));
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

}  // namespace quire
