// Ops that make each number by itself: a struct with `of(row, i)` each. Grid: columns / 256, rows (at most 65535).
#pragma once
#include "backend/cuda/kernels/math.cuh"
#include "ops/activation.h"

namespace quire::cuda {

template <class Op>
struct Elementwise {
  static constexpr int kThreads = 256, kSharedBytes = 0;
  Op op;
  int n_columns;

  QR_DEVICE void operator()() const {
    const int i = dev::block_x() * kThreads + dev::thread();
    if (i < n_columns) op.of(dev::block_y(), i);
  }
};

struct Add {  // x += delta
  Rows<float> x;
  Rows<const float> delta;
  QR_DEVICE void of(int64_t row, int i) const {
    float* at = x.row(row) + i;
    dev::store(at, dev::add(dev::load(at), dev::load(delta.row(row) + i)));
  }
};

struct Scale {  // x *= factor
  Rows<float> x;
  float factor;
  QR_DEVICE void of(int64_t row, int i) const {
    float* at = x.row(row) + i;
    dev::store(at, dev::mul(dev::load(at), factor));
  }
};

struct ScaleRows {  // x[row] *= factors[row]
  Rows<float> x;
  const float* factors;
  QR_DEVICE void of(int64_t row, int i) const {
    float* at = x.row(row) + i;
    dev::store(at, dev::mul(dev::load(at), dev::load(factors + row)));
  }
};

struct SoftCap {
  Rows<float> x;
  float cap;
  QR_DEVICE void of(int64_t row, int i) const {
    float* at = x.row(row) + i;
    dev::store(at, soft_capped(dev::load(at), cap));
  }
};

// docs/numerics.md, "Gated units".
template <Activation kAct>
QR_DEVICE float activated(float x) {
  if constexpr (kAct == Activation::silu) return dev::div(x, dev::add(1.0F, exp_of(dev::sub(0.0F, x))));
  if constexpr (kAct == Activation::gelu_tanh) {
    const float cubic = dev::fma(dev::mul(dev::mul(x, x), 0.044715F), x, x);
    return dev::div(x, dev::add(1.0F, exp_of(dev::mul(cubic, -1.5957691F))));
  }
  if constexpr (kAct == Activation::gelu_erf) {
    const float size = dev::as_float(dev::as_bits(x) & 0x7fffffffU);
    const float t = dev::div(1.0F, dev::fma(size, 0.23164189F, 1.0F));
    float p = dev::fma(0.5307027F, t, -0.72657601F);
    p = dev::fma(p, t, 0.71070687F);
    p = dev::fma(p, t, -0.14224837F);
    p = dev::fma(p, t, 0.1274148F);
    const float below = dev::mul(dev::mul(p, t), exp_of(dev::mul(dev::mul(x, x), -0.5F)));
    return dev::mul(x, x < 0.0F ? below : dev::sub(1.0F, below));
  }
  if constexpr (kAct == Activation::relu2) {
    const float above = 0.0F > x ? 0.0F : x;
    return dev::mul(above, above);
  }
  if constexpr (kAct == Activation::sigmoid) return dev::div(1.0F, dev::add(1.0F, exp_of(dev::sub(0.0F, x))));
  if constexpr (kAct == Activation::none) return x;
  if constexpr (kAct == Activation::below_zero) {
    const float below = 0.0F < x ? 0.0F : x;
    return dev::sub(dev::sub(exp_of(below), 1.0F), below);
  }
  const float gate = 7.0F < x ? 7.0F : x;  // clamped_silu
  return dev::div(gate, dev::add(1.0F, exp_of(dev::mul(gate, -1.702F))));
}

template <Activation kAct>
struct Gated {  // y = act(gate) · up, act(gate) where there is no up
  Rows<float> y;
  Rows<const float> gate, up;
  QR_DEVICE float made(int64_t row, int i) const {
    const float act = activated<kAct>(dev::load(gate.row(row) + i));
    if (up.data == nullptr) return act;
    float by = dev::load(up.row(row) + i);
    if constexpr (kAct == Activation::clamped_silu) {
      by = 7.0F < by ? 7.0F : by;
      by = dev::add(-7.0F > by ? -7.0F : by, 1.0F);
    }
    return dev::mul(act, by);
  }
  QR_DEVICE void of(int64_t row, int i) const { dev::store(y.row(row) + i, made(row, i)); }
};

struct CopyRows {  // y = x, bit for bit
  Rows<uint32_t> y;
  Rows<const uint32_t> x;
  QR_DEVICE void of(int64_t row, int i) const { dev::store(y.row(row) + i, dev::load(x.row(row) + i)); }
};

struct PickRows {  // y[row] = x[ids[row]]
  Rows<float> y;
  Rows<const float> x;
  const int32_t* ids;
  QR_DEVICE void of(int64_t row, int i) const {
    dev::store(y.row(row) + i, dev::load(x.row(dev::load(ids + row)) + i));
  }
};

struct Rotate {  // pair i % n_freq of head i / n_freq
  Rows<float> x;
  const float* table;  // [rows, n_freq, 2]
  int head_dim, n_freq;
  bool is_interleaved;
  QR_DEVICE void of(int64_t row, int i) const {
    const int f = i % n_freq;
    float* head = x.row(row) + int64_t{i / n_freq} * head_dim;
    float* first = head + (is_interleaved ? 2 * f : f);
    float* second = first + (is_interleaved ? 1 : n_freq);
    const float a = dev::load(first), b = dev::load(second);
    const float c = dev::load(table + (row * n_freq + f) * 2), s = dev::load(table + (row * n_freq + f) * 2 + 1);
    dev::store(first, dev::sub(dev::mul(a, c), dev::mul(b, s)));
    dev::store(second, dev::add(dev::mul(a, s), dev::mul(b, c)));
  }
};

}  // namespace quire::cuda
