// Activations for integer formats (docs/numerics.md, "Activations"): activation groups of 32 of a row, a warp each. By
// itself, or by the kernel that makes the numbers: of a norm's and of a gated unit's only the products need them.
#pragma once
#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/kernels/norm.cuh"

namespace quire::cuda {

// Where quantised rows lie: of each group 32 int8, a scale, and scale · Σ of them and of their halves.
struct QuantizedRows {
  int8_t* q;         // [rows, 32 · n_activation_groups]
  float* scales;     // [rows, pitch]
  float* sums;       // [rows, pitch]
  float* half_sums;  // [rows, 2 · pitch], of the first and the last 16
  int n_activation_groups;
  int pitch;

  // scale · Σ. All lanes of the warp call.
  QR_DEVICE void store_sums(int64_t group, int32_t number, float scale) const {
    const int lane = dev::thread() % 32;
    auto sum = static_cast<uint32_t>(number);
    for (int n = 8; n > 0; n /= 2) sum += dev::shuffle_xor(sum, n);
    const uint32_t all = sum + dev::shuffle_xor(sum, 16);
    if (lane == 0) dev::store(sums + group, dev::mul(scale, dev::whole(static_cast<int32_t>(all))));
    if (lane % 16 == 0) {
      dev::store(half_sums + 2 * group + lane / 16, dev::mul(scale, dev::whole(static_cast<int32_t>(sum))));
    }
  }

  // Number `lane` of group g of a row is v. All lanes of the warp call.
  QR_DEVICE void put(int64_t row, int g, float v) const {
    const int lane = dev::thread() % 32;
    // As integers magnitudes order as floats do, infinity and NaN above all.
    uint32_t largest = dev::as_bits(v) & 0x7fffffffU;
    for (int n = 16; n > 0; n /= 2) {
      const uint32_t other = dev::shuffle_xor(largest, n);
      largest = other > largest ? other : largest;
    }
    const bool is_finite = largest < 0x7f800000U;
    const float amax = dev::as_float(largest);
    const bool counts = is_finite && amax >= 0x1p-120F;
    const float scaled = counts ? dev::mul(v, dev::div(127.0F, amax)) : 0.0F;
    const uint32_t rounded = dev::as_bits(dev::add(scaled, 12582912.0F));  // the integer in the low bits
    const auto number = static_cast<int8_t>(rounded & 0xffU);
    const float scale = counts ? dev::div(amax, 127.0F) : is_finite ? 0.0F : dev::as_float(0x7fc00000U);
    dev::store(q + (row * n_activation_groups + g) * 32 + lane, number);
    store_sums(row * pitch + g, number, scale);
    if (lane == 0) dev::store(scales + row * pitch + g, scale);
  }
};

// Number j of a quantised row is number order[j] of x, or number j where that is null. Grid: activation groups / 4,
// rows.
struct Quantize {
  static constexpr int kThreads = 128, kSharedBytes = 0;
  Rows<const float> x;
  QuantizedRows to;
  const int32_t* order;

  QR_DEVICE void operator()() const {
    const int g = dev::block_x() * (kThreads / 32) + dev::thread() / 32;
    if (g >= to.n_activation_groups) return;
    const int64_t row = dev::block_y();
    const int j = g * 32 + dev::thread() % 32;
    to.put(row, g, dev::load(x.row(row) + (order == nullptr ? j : dev::load(order + j))));
  }
};

// An activation's numbers, of a unit whose hidden numbers nobody else reads. Grid: activation groups / 4, rows.
template <Activation kAct>
struct GatedQuantize {
  static constexpr int kThreads = 128, kSharedBytes = 0;
  Rows<const float> gate, up;
  QuantizedRows to;

  QR_DEVICE void operator()() const {
    const int g = dev::block_x() * (kThreads / 32) + dev::thread() / 32;
    if (g >= to.n_activation_groups) return;
    const int64_t row = dev::block_y();
    to.put(row, g, Gated<kAct>{{}, gate, up}.made(row, g * 32 + dev::thread() % 32));
  }
};

// x += delta where there is one; y = x / rms(x) · w, and y quantised or not. Grid: rows. Limits: rows of 16384 numbers,
// of whole activation groups where they are quantised.
template <bool kQuantizes>
struct NormWholeRow {
  static constexpr int kThreads = 512, kMost = 16384, kFactorAt = kMost * 4, kSharedBytes = kFactorAt + 16;
  Rows<float> y, x;
  Rows<const float> delta;  // data null: none
  const float* w;
  float eps;
  int d;
  QuantizedRows to;

  QR_DEVICE void add_delta(int64_t row) const {
    const dev::Shared<float> numbers(0);
    float* from = x.row(row);
    for (int i = dev::thread(); i < d; i += kThreads) {
      float v = dev::load(from + i);
      if (delta.data != nullptr) {
        v = dev::add(v, dev::load(delta.row(row) + i));
        dev::store(from + i, v);
      }
      numbers[i] = v;
    }
  }

  // What the row is multiplied by; a warp calls, whose halves do the same.
  QR_DEVICE float factor() const {
    constexpr int kAhead = 8;
    const dev::Shared<float> numbers(0);
    float sum = 0.0F;
    int i = dev::thread() % 16;
    for (; i + 16 * (kAhead - 1) < d; i += 16 * kAhead) {
      float v[kAhead];
      for (int j = 0; j < kAhead; ++j) v[j] = numbers[i + 16 * j];
      for (int j = 0; j < kAhead; ++j) sum = dev::fma(v[j], v[j], sum);
    }
    for (; i < d; i += 16) {
      const float v = numbers[i];
      sum = dev::fma(v, v, sum);
    }
    const float mean = dev::div(folded(sum), dev::whole(d));
    return dev::div(1.0F, dev::root(dev::add(mean, eps)));
  }

  QR_DEVICE void operator()() const {
    const int64_t row = dev::block_x();
    const dev::Shared<float> numbers(0), shared_factor(kFactorAt);
    add_delta(row);
    dev::sync();
    if (dev::thread() < 32) {
      const float by = factor();
      if (dev::thread() == 0) shared_factor[0] = by;
    }
    dev::sync();
    const float by = shared_factor[0];
    for (int i = dev::thread(); i < d; i += kThreads) {
      const float v = dev::mul(dev::mul(numbers[i], by), dev::load(w + i));
      dev::store(y.row(row) + i, v);
      if constexpr (kQuantizes) to.put(row, i / 32, v);
    }
  }
};
using NormQuantize = NormWholeRow<true>;
using NormRow = NormWholeRow<false>;

}  // namespace quire::cuda
