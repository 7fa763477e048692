// Kernels of layers that keep a state: a short convolution, a selective scan and a delta rule, row after row of one
// sequence. A lane is a column, or a component of a head; sums over taps and over components of the state go in order,
// so that bits depend neither on the width of a vector nor on how many rows come at once (docs/numerics.md).
#pragma once
#include "backend/cpu/kernels/exp.h"
#include "backend/cpu/kernels/state_tables.h"
#include "ops/state_sizes.h"

namespace quire {
namespace {

template <class V>
struct States {
  using F = typename V::F;

  static QR_INLINE F load(const float* p, int lanes) { return lanes == 16 ? V::load(p) : V::load_n(p, lanes); }
  static QR_INLINE void store(float* p, F x, int lanes) { lanes == 16 ? V::store(p, x) : V::store_n(p, x, lanes); }

  static void conv(const ConvTask& task) {
    for (int64_t i = 0; i < task.d; i += 16) {
      conv_lanes(task, i, task.d - i < 16 ? static_cast<int>(task.d - i) : 16);
    }
  }

  // The rows before wait in registers or on the stack, so a state may be written over the one that was read.
  static QR_INLINE void conv_lanes(const ConvTask& task, int64_t i, int lanes) {
    F past[kMostTaps], w[kMostTaps];
    const int n_past = task.n_taps - 1;
    for (int j = 0; j < n_past; ++j) {
      past[j] = task.from == nullptr ? V::zero() : load(task.from + j * task.state_stride + i, lanes);
    }
    for (int j = 0; j <= n_past; ++j) w[j] = load(task.w + j * task.state_stride + i, lanes);
    const F b = task.b == nullptr ? V::zero() : load(task.b + i, lanes);
    for (int64_t row = 0; row < task.n; ++row) {
      const F x = load(task.x + row * task.x_stride + i, lanes);
      F sum = b;
      for (int j = 0; j < n_past; ++j) sum = V::fma(past[j], w[j], sum);
      store(task.y + row * task.y_stride + i, V::fma(x, w[n_past], sum), lanes);
      for (int j = 0; j + 1 < n_past; ++j) past[j] = past[j + 1];
      if (n_past > 0) past[n_past - 1] = x;
      if (task.to[row] < 0) continue;
      float* state = task.state(task.to[row]) + i;
      for (int j = 0; j < n_past; ++j) store(state + j * task.state_stride, past[j], lanes);
    }
  }

  static void scan(const ScanTask& task) {
    int p = 0;
    for (; p + 64 <= task.head_dim; p += 64) scan_lanes<4>(task, p, 16);
    for (; p < task.head_dim; p += 16) scan_lanes<1>(task, p, task.head_dim - p < 16 ? task.head_dim - p : 16);
  }

  // Components [p, p + 16 · N) of a head; of a single vector `lanes` of them. A row's state goes where it is to be
  // left, else onto the stack, and the next row reads it there.
  template <int N>
  static QR_INLINE void scan_lanes(const ScanTask& task, int p, int lanes) {
    alignas(64) float own[kMostStateDim * 16 * N];
    const float* from = task.from == nullptr ? nullptr : task.from + p;
    int64_t from_stride = task.head_dim;
    for (int64_t row = 0; row < task.n; ++row) {
      float* to = task.to[row] < 0 ? own : task.state(task.to[row]) + p;
      const int64_t to_stride = task.to[row] < 0 ? 16 * N : task.head_dim;
      const float* x = task.x + row * task.x_stride + p;
      const float* b = task.b + row * task.b_stride;
      const float* c = task.c + row * task.c_stride;
      const F step = V::set1(task.steps[row * task.steps_stride]);
      const F decay = V::set1(task.steps[row * task.steps_stride + 1]);
      F in[N], y[N];
      for (int i = 0; i < N; ++i) in[i] = V::mul(load(x + 16 * i, lanes), step);
      for (int i = 0; i < N; ++i) y[i] = V::zero();
      for (int s = 0; s < task.state_dim; ++s) {
        const F weight = V::set1(b[s]), share = V::set1(c[s]);
        for (int i = 0; i < N; ++i) {
          const F before = from == nullptr ? V::zero() : load(from + s * from_stride + 16 * i, lanes);
          const F now = V::fma(before, decay, V::mul(weight, in[i]));
          store(to + s * to_stride + 16 * i, now, lanes);
          y[i] = V::fma(now, share, y[i]);
        }
      }
      float* out = task.y + row * task.y_stride + p;
      for (int i = 0; i < N; ++i) {
        store(out + 16 * i, V::fma(load(x + 16 * i, lanes), V::set1(task.skip), y[i]), lanes);
      }
      from = to;
      from_stride = to_stride;
    }
  }

  static void scan_columns(const ColumnScanTask& task) {
    int64_t p = 0;
    for (; p + 64 <= task.d; p += 64) column_lanes<4>(task, p, 16);
    for (; p < task.d; p += 16) column_lanes<1>(task, p, task.d - p < 16 ? static_cast<int>(task.d - p) : 16);
  }

  // Columns [p, p + 16 · N), as scan_lanes.
  template <int N>
  static QR_INLINE void column_lanes(const ColumnScanTask& task, int64_t p, int lanes) {
    alignas(64) float own[kMostStateDim * 16 * N];
    const float* from = task.from == nullptr ? nullptr : task.from + p;
    int64_t from_stride = task.state_stride;
    for (int64_t row = 0; row < task.n; ++row) {
      float* to = task.to[row] < 0 ? own : task.state(task.to[row]) + p;
      const int64_t to_stride = task.to[row] < 0 ? 16 * N : task.state_stride;
      const float* b = task.b + row * task.b_stride;
      const float* c = task.c + row * task.c_stride;
      F step[N], x[N], in[N], y[N], decay[N];
      for (int i = 0; i < N; ++i) step[i] = load(task.steps + row * task.steps_stride + p + 16 * i, lanes);
      for (int i = 0; i < N; ++i) x[i] = load(task.x + row * task.x_stride + p + 16 * i, lanes);
      for (int i = 0; i < N; ++i) in[i] = V::mul(x[i], step[i]);
      for (int i = 0; i < N; ++i) y[i] = V::zero();
      for (int s = 0; s < task.state_dim; ++s) {
        const F weight = V::set1(b[s]), share = V::set1(c[s]);
        const float* a = task.a + s * task.state_stride + p;
        for (int i = 0; i < N; ++i) decay[i] = V::mul(step[i], load(a + 16 * i, lanes));
        exp_some<V, N, true>(decay);
        for (int i = 0; i < N; ++i) {
          const F before = from == nullptr ? V::zero() : load(from + s * from_stride + 16 * i, lanes);
          const F now = V::fma(before, decay[i], V::mul(weight, in[i]));
          store(to + s * to_stride + 16 * i, now, lanes);
          y[i] = V::fma(now, share, y[i]);
        }
      }
      for (int i = 0; i < N; ++i) {
        const F skip = load(task.skip + p + 16 * i, lanes);
        store(task.y + row * task.y_stride + p + 16 * i, V::fma(x[i], skip, y[i]), lanes);
      }
      from = to;
      from_stride = to_stride;
    }
  }

  static void delta_rule(const DeltaTask& task) {
    int p = 0;
    for (; p + 64 <= task.v_dim; p += 64) delta_lanes<4>(task, p, 16);
    for (; p < task.v_dim; p += 16) delta_lanes<1>(task, p, task.v_dim - p < 16 ? task.v_dim - p : 16);
  }

  // Components [p, p + 16 · N) of a head's values, as scan_lanes. The state is read twice: for what it says of the key,
  // then for what it becomes.
  template <int N>
  static QR_INLINE void delta_lanes(const DeltaTask& task, int p, int lanes) {
    alignas(64) float own[kMostStateDim * 16 * N];
    const float* from = task.from == nullptr ? nullptr : task.from + p;
    int64_t from_stride = task.v_dim;
    for (int64_t row = 0; row < task.n; ++row) {
      float* to = task.to[row] < 0 ? own : task.state(task.to[row]) + p;
      const int64_t to_stride = task.to[row] < 0 ? 16 * N : task.v_dim;
      const float* q = task.q + row * task.made_stride;
      const float* k = task.k + row * task.made_stride;
      const float* fades = task.fades + row * task.made_stride;
      const F share = V::set1(task.share[row * task.made_stride]);
      F now[N], added[N], y[N];
      for (int i = 0; i < N; ++i) added[i] = y[i] = V::zero();
      for (int s = 0; from != nullptr && s < task.k_dim; ++s) {
        const F fade = V::set1(fades[s * task.fade_stride]), key = V::set1(k[s]);
        for (int i = 0; i < N; ++i) now[i] = V::mul(load(from + s * from_stride + 16 * i, lanes), fade);
        for (int i = 0; i < N; ++i) added[i] = V::fma(now[i], key, added[i]);
      }
      for (int i = 0; i < N; ++i) {
        const F value = load(task.v + row * task.v_stride + p + 16 * i, lanes);
        added[i] = V::mul(V::sub(value, added[i]), share);
      }
      for (int s = 0; s < task.k_dim; ++s) {
        const F fade = V::set1(fades[s * task.fade_stride]), key = V::set1(k[s]), query = V::set1(q[s]);
        for (int i = 0; i < N; ++i) {
          const F before = from == nullptr ? V::zero() : load(from + s * from_stride + 16 * i, lanes);
          now[i] = V::fma(added[i], key, V::mul(before, fade));
          store(to + s * to_stride + 16 * i, now[i], lanes);
        }
        for (int i = 0; i < N; ++i) y[i] = V::fma(now[i], query, y[i]);
      }
      for (int i = 0; i < N; ++i) store(task.y + row * task.y_stride + p + 16 * i, y[i], lanes);
      from = to;
      from_stride = to_stride;
    }
  }

  static void wkv(const WkvTask& task) {
    int p = 0;
    for (; p + 64 <= task.dim; p += 64) wkv_lanes<4>(task, p, 16);
    for (; p < task.dim; p += 16) wkv_lanes<1>(task, p, task.dim - p < 16 ? task.dim - p : 16);
  }

  // Components [p, p + 16 · N) of a head's values, as scan_lanes. RWKV 7 reads the state twice, as a delta rule.
  template <int N>
  static QR_INLINE void wkv_lanes(const WkvTask& task, int p, int lanes) {
    alignas(64) float own[kMostStateDim * 16 * N];
    const float* from = task.from == nullptr ? nullptr : task.from + p;
    int64_t from_stride = task.dim;
    for (int64_t row = 0; row < task.n; ++row) {
      float* to = task.to[row] < 0 ? own : task.state(task.to[row]) + p;
      const int64_t to_stride = task.to[row] < 0 ? 16 * N : task.dim;
      const float* r = task.r + row * task.r_stride;
      const float* fades = task.made + row * task.made_stride;
      const float* keys = fades + task.dim;
      const float* gone = task.has_rate ? keys + task.dim : nullptr;
      const float* back = task.has_rate ? gone + task.dim : nullptr;
      F value[N], removed[N], y[N];
      for (int i = 0; i < N; ++i) value[i] = load(task.v + row * task.v_stride + p + 16 * i, lanes);
      for (int i = 0; i < N; ++i) removed[i] = y[i] = V::zero();
      for (int s = 0; task.has_rate && from != nullptr && s < task.dim; ++s) {
        const F by = V::set1(gone[s]);
        for (int i = 0; i < N; ++i) removed[i] = V::fma(load(from + s * from_stride + 16 * i, lanes), by, removed[i]);
      }
      for (int s = 0; s < task.dim; ++s) {
        const F fade = V::set1(fades[s]), key = V::set1(keys[s]), asked = V::set1(r[s]);
        const F taken = task.has_rate ? V::set1(back[s]) : V::zero();
        for (int i = 0; i < N; ++i) {
          const F before = from == nullptr ? V::zero() : load(from + s * from_stride + 16 * i, lanes);
          F now = V::fma(before, fade, V::mul(key, value[i]));
          if (task.has_rate) now = V::fma(taken, removed[i], now);
          y[i] = V::fma(task.has_rate ? now : before, asked, y[i]);
          store(to + s * to_stride + 16 * i, now, lanes);
        }
      }
      for (int i = 0; i < N; ++i) store(task.y + row * task.y_stride + p + 16 * i, y[i], lanes);
      from = to;
      from_stride = to_stride;
    }
  }
};

template <class V>
constexpr StateKernels make_state_kernels(std::string_view isa) {
  return {isa, &States<V>::conv, &States<V>::scan, &States<V>::scan_columns, &States<V>::delta_rule, &States<V>::wkv};
}

}  // namespace
}  // namespace quire
