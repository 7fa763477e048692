// y = x·Wᵀ + b of Q8_0 weights and quantised rows (docs/numerics.md, "Linear"): scale groups of 32 by mma.m16n8k32,
// exact, added by fma in eight segments. A block makes 64 outputs of 16 rows, a warp 16 outputs; weights, activations
// and their scales come by cp.async, 8 scale groups a stage, two stages. Grid: outputs / 64, rows / 16. An integer sum
// starts at the bits of 1.5·2^23, so that its bits are those of a float that a subtraction makes right.
#pragma once
#include "backend/cuda/kernels/segments.cuh"

namespace quire::cuda {

struct LinearQ8_0 {
  static constexpr int kThreads = 128, kOutputs = 64, kRows = 16, kScaleGroups = 8;
  static constexpr int kDepth = 32 * kScaleGroups,
                       kPitch = kDepth + 16;  // rows of shared memory begin at different banks
  static constexpr int kXAt = kOutputs * kPitch, kWScalesAt = kXAt + kRows * kPitch;
  static constexpr int kXScalesAt = kWScalesAt + kOutputs * kScaleGroups * 2;
  static constexpr int kStageBytes = kXScalesAt + kRows * kScaleGroups * 4;
  static constexpr int kSharedBytes = 2 * kStageBytes;

  const int8_t* w;           // [n_out, 32 · n_scale_groups]
  const uint16_t* w_scales;  // halves [n_out, scale_pitch]
  const float* bias;         // [n_out] or null
  const int8_t* x;           // [n, 32 · n_scale_groups]
  const float* x_scales;     // [n, scale_pitch]
  Rows<float> y;             // [n, n_out]
  int n, n_out, n_scale_groups;
  int scale_pitch;  // n_scale_groups rounded up to kScaleGroups

  // Asks for scale groups [8 · step, 8 · step + 8) of the block's weights and rows.
  QR_DEVICE void fetch(int stage, int step) const {
    constexpr int kPieces = kDepth / 16;
    const int base = stage * kStageBytes;
    const int64_t first_out = int64_t{dev::block_x()} * kOutputs;
    const int64_t first_row = int64_t{dev::block_y()} * kRows;
    const int64_t depth = int64_t{n_scale_groups} * 32;
    const int k0 = step * kDepth;
    const dev::Shared<int8_t> bytes(base);
    for (int i = dev::thread(); i < (kOutputs + kRows) * kPieces; i += kThreads) {
      const int r = i / kPieces, k = i % kPieces * 16;
      const bool is_w = r < kOutputs;
      const int64_t row = is_w ? first_out + r : first_row + r - kOutputs;
      const bool is_in = row < (is_w ? n_out : n) && k0 + k < depth;
      dev::copy16(bytes, r * kPitch + k, (is_w ? w : x) + (is_in ? row * depth + k0 + k : 0), is_in);
    }
    const dev::Shared<uint16_t> of_w(base + kWScalesAt);
    const dev::Shared<float> of_x(base + kXScalesAt);
    for (int i = dev::thread(); i < kOutputs + 2 * kRows; i += kThreads) {
      if (i < kOutputs) {
        const bool is_in = first_out + i < n_out;
        dev::copy16(of_w, i * kScaleGroups,
                    w_scales + (is_in ? (first_out + i) * scale_pitch + step * kScaleGroups : 0), is_in);
        continue;
      }
      const int half = (i - kOutputs) % 2 * 4;
      const int r = (i - kOutputs) / 2;
      const bool is_in = first_row + r < n;
      const int64_t at = is_in ? (first_row + r) * scale_pitch + step * kScaleGroups + half : 0;
      dev::copy16(of_x, r * kScaleGroups + half, x_scales + at, is_in);
    }
    dev::copy_commit();
  }

  QR_DEVICE void add_scale_group(int base, int b, SegmentSums& sums) const {
    const int lane = dev::thread() % 32, warp = dev::thread() / 32;
    const dev::Shared<int8_t> of_w(base), of_x(base + kXAt);
    const dev::Shared<uint16_t> w_at(base + kWScalesAt);
    const dev::Shared<float> x_at(base + kXScalesAt);
    uint32_t a[4], q[4];
    dev::load_matrix(a, of_w, (warp * 16 + lane % 16) * kPitch + b * 32 + lane / 16 * 16);
    dev::load_matrix(q, of_x, (lane / 16 * 8 + lane % 8) * kPitch + b * 32 + lane / 8 % 2 * 16);
    const int out = warp * 16 + lane / 4;
    const float scale[2] = {dev::to_float(w_at[out * kScaleGroups + b]),
                            dev::to_float(w_at[(out + 8) * kScaleGroups + b])};
    for (int t = 0; t < 2; ++t) {
      int32_t d[4] = {0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000};
      const uint32_t two[2] = {q[2 * t], q[2 * t + 1]};
      dev::mma_s8(d, a, two);
      const int row = t * 8 + lane % 4 * 2;
      const float x_scale[2] = {x_at[row * kScaleGroups + b], x_at[(row + 1) * kScaleGroups + b]};
      for (int i = 0; i < 4; ++i) {
        const float dot = dev::sub(dev::as_float(static_cast<uint32_t>(d[i])), 12582912.0F);
        float& sum = sums.now[t * 4 + i];
        sum = dev::fma(dot, dev::mul(scale[i / 2], x_scale[i % 2]), sum);
      }
    }
  }

  QR_DEVICE void operator()() const {
    SegmentSums sums;
    sums.begin(n_scale_groups);
    const int n_steps = (n_scale_groups + kScaleGroups - 1) / kScaleGroups;
    fetch(0, 0);
    for (int s = 0; s < n_steps; ++s) {
      if (s + 1 < n_steps) {
        fetch((s + 1) % 2, s + 1);
        dev::copy_wait<1>();
      } else {
        dev::copy_wait<0>();
      }
      dev::sync();
      for (int b = 0; b < kScaleGroups && s * kScaleGroups + b < n_scale_groups; ++b) {
        while (s * kScaleGroups + b == sums.end) sums.close(n_scale_groups);
        add_scale_group(s % 2 * kStageBytes, b, sums);
      }
      dev::sync();  // before the stage is written again
    }
    while (sums.segment < 8) sums.close(n_scale_groups);
    const int lane = dev::thread() % 32, warp = dev::thread() / 32;
    for (int i = 0; i < 8; ++i) {
      const int64_t out = int64_t{dev::block_x()} * kOutputs + warp * 16 + lane / 4 + i / 2 % 2 * 8;
      const int64_t row = int64_t{dev::block_y()} * kRows + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (out >= n_out || row >= n) continue;
      dev::store(y.row(row) + out, bias == nullptr ? sums.four[i] : dev::add(sums.four[i], dev::load(bias + out)));
    }
  }
};

}  // namespace quire::cuda
