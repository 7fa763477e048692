// Ops that make each number by itself: a struct with `of(row, i)` each. Grid: columns / 256, rows (at most 65535).
#pragma once
#include "backend/cuda/kernels/math.cuh"

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

struct Silu {  // y = silu(gate) · up, silu(gate) where there is no up
  Rows<float> y;
  Rows<const float> gate, up;
  QR_DEVICE void of(int64_t row, int i) const {
    const float x = dev::load(gate.row(row) + i);
    const float act = dev::div(x, dev::add(1.0F, exp_of(dev::sub(0.0F, x))));
    dev::store(y.row(row) + i, up.data == nullptr ? act : dev::mul(act, dev::load(up.row(row) + i)));
  }
};

struct PickRows {  // y[row] = x[ids[row]]
  Rows<float> y;
  Rows<const float> x;
  const int32_t* ids;
  QR_DEVICE void of(int64_t row, int i) const {
    dev::store(y.row(row) + i, dev::load(x.row(dev::load(ids + row)) + i));
  }
};

struct EmbedQ8_0 {  // y[row] = row ids[row] of a table that lies as LinearQ8_0 wants it
  Rows<float> y;
  const int8_t* q;
  const uint16_t* scales;
  const int32_t* ids;
  int n_in, scale_pitch;
  QR_DEVICE void of(int64_t row, int i) const {
    const int64_t id = dev::load(ids + row);
    const float scale = dev::to_float(dev::load(scales + id * scale_pitch + i / 32));
    dev::store(y.row(row) + i, dev::mul(scale, dev::whole(dev::load(q + id * n_in + i))));
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
