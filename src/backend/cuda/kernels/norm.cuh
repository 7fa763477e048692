// Norms of rows (docs/numerics.md): 16 lanes a row, two rows a warp. Grid: rows / 8.
#pragma once
#include "backend/cuda/kernels/math.cuh"

namespace quire::cuda {

// y = x / rms(x) · w, of rows that may be parts of wider ones: row i is part i % n_parts of wide row i / n_parts.
// With a delta x += delta before.
struct RmsNorm {
  static constexpr int kThreads = 128, kSharedBytes = 0;
  Rows<float> y, x;
  Rows<const float> delta;  // data null: none
  const float* w;
  int n_rows, n_parts, d;
  float eps;

  QR_DEVICE int64_t at(int64_t row, int64_t stride) const { return row / n_parts * stride + row % n_parts * d; }

  QR_DEVICE void operator()() const {
    const int64_t row = int64_t{dev::block_x()} * (kThreads / 16) + dev::thread() / 16;
    const bool is_in = row < n_rows;
    const int lane = dev::thread() % 16;
    float* from = x.data + (is_in ? at(row, x.stride) : 0);
    float sum = 0.0F;
    for (int i = lane; is_in && i < d; i += 16) {
      float v = dev::load(from + i);
      if (delta.data != nullptr) {
        v = dev::add(v, dev::load(delta.data + at(row, delta.stride) + i));
        dev::store(from + i, v);
      }
      sum = dev::fma(v, v, sum);
    }
    const float mean = dev::div(folded(sum), dev::whole(d));
    const float factor = dev::div(1.0F, dev::root(dev::add(mean, eps)));
    float* to = y.data + (is_in ? at(row, y.stride) : 0);
    for (int i = lane; is_in && i < d; i += 16) {
      dev::store(to + i, dev::mul(dev::mul(dev::load(from + i), factor), dev::load(w + i)));
    }
  }
};

// y = (x − mean(x)) / √(variance(x) + eps) · w + b.
struct LayerNorm {
  static constexpr int kThreads = 128, kSharedBytes = 0;
  Rows<float> y;
  Rows<const float> x;
  const float *w, *b;  // b null: none
  int n_rows, d;
  float eps;

  QR_DEVICE void operator()() const {
    const int64_t row = int64_t{dev::block_x()} * (kThreads / 16) + dev::thread() / 16;
    const bool is_in = row < n_rows;
    const int lane = dev::thread() % 16;
    const float* from = x.row(is_in ? row : 0);
    float sum = 0.0F;
    for (int i = lane; is_in && i < d; i += 16) sum = dev::add(sum, dev::load(from + i));
    const float mean = dev::div(folded(sum), dev::whole(d));
    sum = 0.0F;
    for (int i = lane; is_in && i < d; i += 16) {
      const float v = dev::sub(dev::load(from + i), mean);
      sum = dev::fma(v, v, sum);
    }
    const float variance = dev::div(folded(sum), dev::whole(d));
    const float factor = dev::div(1.0F, dev::root(dev::add(variance, eps)));
    for (int i = lane; is_in && i < d; i += 16) {
      const float v = dev::mul(dev::mul(dev::sub(dev::load(from + i), mean), factor), dev::load(w + i));
      dev::store(y.row(row) + i, b == nullptr ? v : dev::add(v, dev::load(b + i)));
    }
  }
};

}  // namespace quire::cuda
