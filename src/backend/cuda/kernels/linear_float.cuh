// y = x·Wᵀ + b of F32 and F16 weights (docs/numerics.md, "Linear"): fma for every k in order, in eight segments. A
// block makes 64 outputs of 16 rows, a thread two outputs of four rows. Weights lie in panels of 64 outputs, k by k,
// zeros beyond the ends, and come by cp.async, 32 k a stage, two stages. Grid: outputs / 64, rows / 16.
#pragma once
#include "backend/cuda/kernels/segments.cuh"

namespace quire::cuda {

QR_DEVICE float decoded(float w) { return w; }
QR_DEVICE float decoded(uint16_t half) { return dev::to_float(half); }

// W: float, or uint16_t for a half.
template <class W>
struct LinearFloat {
  static constexpr int kThreads = 128, kOutputs = 64, kRows = 16, kDepth = 32;
  static constexpr int kPiece = 16 / static_cast<int>(sizeof(W));                      // weights of a copy
  static constexpr int kStageBytes = kDepth * kOutputs * static_cast<int>(sizeof(W));  // of weights
  static constexpr int kXAt = 2 * kStageBytes, kXBytes = kRows * kDepth * 4;
  static constexpr int kSharedBytes = kXAt + 2 * kXBytes;

  const W* w;           // [panels, 32 · n_blocks, 64]
  const float* bias;    // [n_out] or null
  Rows<const float> x;  // [n, n_in]
  Rows<float> y;        // [n, n_out]
  int n, n_out, n_in;

  QR_DEVICE int n_blocks() const { return (n_in + kDepth - 1) / kDepth; }

  // Asks for 32 k of the panel and puts those of the rows where they belong.
  QR_DEVICE void fetch(int stage, int step) const {
    const W* from = w + (int64_t{dev::block_x()} * n_blocks() + step) * kDepth * kOutputs;
    const dev::Shared<W> to(stage * kStageBytes);
    for (int i = dev::thread() * kPiece; i < kDepth * kOutputs; i += kThreads * kPiece)
      dev::copy16(to, i, from + i, true);
    dev::copy_commit();
    const dev::Shared<float> of_x(kXAt + stage * kXBytes);
    for (int i = dev::thread(); i < kRows * kDepth; i += kThreads) {
      const int64_t row = int64_t{dev::block_y()} * kRows + i / kDepth;
      const int k = step * kDepth + i % kDepth;
      of_x[i] = row < n && k < n_in ? dev::load(x.row(row) + k) : 0.0F;
    }
  }

  QR_DEVICE void add_block(int stage, int depth, SegmentSums& sums) const {
    const int lane = dev::thread() % 32, first_row = dev::thread() / 32 * 4;
    const dev::Shared<W> of_w(stage * kStageBytes);
    const dev::Shared<float> of_x(kXAt + stage * kXBytes);
    for (int k = 0; k < depth; ++k) {
      const float two[2] = {decoded(of_w[k * kOutputs + lane]), decoded(of_w[k * kOutputs + 32 + lane])};
      for (int r = 0; r < 4; ++r) {
        const float v = of_x[(first_row + r) * kDepth + k];
        for (int i = 0; i < 2; ++i) sums.now[2 * r + i] = dev::fma(two[i], v, sums.now[2 * r + i]);
      }
    }
  }

  QR_DEVICE void operator()() const {
    SegmentSums sums;
    sums.begin(n_blocks());
    fetch(0, 0);
    for (int s = 0; s < n_blocks(); ++s) {
      if (s + 1 < n_blocks()) {
        fetch((s + 1) % 2, s + 1);
        dev::copy_wait<1>();
      } else {
        dev::copy_wait<0>();
      }
      dev::sync();
      while (s == sums.end) sums.close(n_blocks());
      add_block(s % 2, n_in - s * kDepth < kDepth ? n_in - s * kDepth : kDepth, sums);
      dev::sync();  // before the stage is written again
    }
    while (sums.segment < 8) sums.close(n_blocks());
    for (int i = 0; i < 8; ++i) {
      const int64_t out = int64_t{dev::block_x()} * kOutputs + dev::thread() % 32 + i % 2 * 32;
      const int64_t row = int64_t{dev::block_y()} * kRows + dev::thread() / 32 * 4 + i / 2;
      if (out >= n_out || row >= n) continue;
      dev::store(y.row(row) + out, bias == nullptr ? sums.four[i] : dev::add(sums.four[i], dev::load(bias + out)));
    }
  }
};

// y[row] = row ids[row] of a table that lies as LinearFloat wants it.
template <class W>
struct EmbedFloat {
  Rows<float> y;
  const W* w;
  const int32_t* ids;
  int n_blocks;
  QR_DEVICE void of(int64_t row, int i) const {
    constexpr int kOutputs = LinearFloat<W>::kOutputs;
    const int64_t id = dev::load(ids + row);
    const int64_t k = id / kOutputs * n_blocks * LinearFloat<W>::kDepth + i;
    dev::store(y.row(row) + i, decoded(dev::load(w + k * kOutputs + id % kOutputs)));
  }
};

}  // namespace quire::cuda
