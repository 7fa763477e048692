// y = x·Wᵀ + b of BF16 weights by bf16 mma (docs/numerics.md, "Tensor arithmetic"): an output is one sum over all k in
// order, 16 at a time. A number of the result depends on its row and its output alone, so tiles of every shape give the
// same bits; linear_wgmma.cuh has others.
//
// Weights and rows come out of their panels by cp.async, kBlocks · 32 k a stage of the ring, and lie there line by
// line. Grid: runs of rows of a batch, outputs / kOutputs, batches of rows; blocks beyond the rows do nothing.
#pragma once
#include "backend/cuda/kernels/tensor_panels.cuh"

namespace quire::cuda {

// kWarpRows rows of a warp, whose outputs are kTiles tiles of 16.
template <int kRowsOf, int kOutputsOf, int kWarpRows, int kTiles, int kBlocks>
struct LinearTensor {
  static constexpr int kRows = kRowsOf, kOutputs = kOutputsOf, kBlock = 32, kDepth = kBlocks * kBlock;
  static constexpr int kWarpsOfOutputs = kOutputs / 16 / kTiles;
  static constexpr int kThreads = 32 * kWarpsOfOutputs * (kRows / kWarpRows);
  static constexpr int kPitch = kDepth * 2 + 16;  // eight lines begin at different banks
  static constexpr int kXAt = kOutputs * kPitch, kStageBytes = kXAt + kRows * kPitch;
  static constexpr int kStages = 4, kSharedBytes = kStages * kStageBytes;
  static constexpr int kResident = kThreads == 256 ? 2 : 0;
  static constexpr int kMostFold = 0;  // FP32 instructions for each mma
  static_assert(kSharedBytes <= 163 * 1024);
  using Sums = float[kWarpRows / 8][kTiles][4];

  TensorProduct of;

  QR_DEVICE int first_row() const { return (dev::block_z() * of.batch + dev::block_x()) * kRows; }
  // The first tile of outputs and the first row of this thread's warp, in its block.
  QR_DEVICE int warp_tile() const { return dev::thread() / 32 % kWarpsOfOutputs * kTiles; }
  QR_DEVICE int warp_row() const { return dev::thread() / 32 / kWarpsOfOutputs * kWarpRows; }

  // Asks for k [step · kDepth, (step + 1) · kDepth) of kLines lines from `first` on, zeros where there are none.
  template <int kLines>
  QR_DEVICE void fetch(int base, const uint16_t* panels, int first, int n_lines, int step) const {
    constexpr int kPieces = kDepth / TensorPanels::kPiece;
    static_assert(kLines * kPieces % kThreads == 0);
    const int begin = step * kDepth, stage = begin / TensorPanels::kDepth;
    const uint16_t* stages = panels + int64_t{stage} * (TensorPanels::kStageBytes / 2);
    const dev::Shared<uint8_t> to(base);
    QR_UNROLL
    for (int i = 0; i < kLines * kPieces; i += kThreads) {
      const int piece = i + dev::thread(), line = piece / kPieces, in_line = piece % kPieces;
      const int k = begin % TensorPanels::kDepth + in_line * TensorPanels::kPiece;
      const uint16_t* from = stages + TensorPanels::at(first + line, k, of.n_blocks);
      dev::copy16(to, line * kPitch + in_line * 16, from,
                  first + line < n_lines && stage * TensorPanels::kDepth + k < of.depth());
    }
  }
  QR_DEVICE void fetch(int base, int step) const {
    fetch<kOutputs>(base, of.w, dev::block_y() * kOutputs, of.n_out, step);
    fetch<kRows>(base + kXAt, of.x, first_row(), of.n, step);
  }

  // Of block `block` of a stage: 16 outputs × 16 k are an operand of mma, 32 k of 8 rows are two.
  QR_DEVICE void add_block(int base, int block, Sums& sums) const {
    const int lane = dev::thread() % 32;
    const dev::Shared<uint8_t> w(base + (warp_tile() * 16 + lane % 16) * kPitch + block * 64 + lane / 16 * 16);
    const dev::Shared<uint8_t> x(base + kXAt + (warp_row() + lane % 8) * kPitch + block * 64 + lane / 8 * 16);
    uint32_t a[kTiles][2][4];
    QR_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      QR_UNROLL
      for (int half = 0; half < 2; ++half) dev::load_matrix(a[t][half], w, t * 16 * kPitch + half * 32);
    }
    QR_UNROLL
    for (int r = 0; r < kWarpRows / 8; ++r) {
      uint32_t b[4];
      dev::load_matrix(b, x, r * 8 * kPitch);
      const uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
      QR_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        dev::mma_bf16(sums[r][t], a[t][0], first);
        dev::mma_bf16(sums[r][t], a[t][1], second);
      }
    }
  }

  // Of a tile a lane has outputs lane / 4 and 8 further of rows lane % 4 · 2 and the next one.
  QR_DEVICE void keep(const Sums& sums) const {
    const int lane = dev::thread() % 32;
    const int row = first_row() + warp_row() + lane % 4 * 2;
    const int out = dev::block_y() * kOutputs + warp_tile() * 16 + lane / 4;
    float bias[kTiles * 2] = {};
    QR_UNROLL
    for (int t = 0; t < kTiles * 2; ++t) {
      if (of.bias != nullptr && out + 8 * t < of.n_out) bias[t] = dev::load(of.bias + out + 8 * t);
    }
    QR_UNROLL
    for (int r = 0; r < kWarpRows / 8; ++r) {
      QR_UNROLL
      for (int i = 0; i < kTiles * 4; ++i) {
        const int at = row + 8 * r + i % 2, down = i / 2;
        if (at >= of.n || out + 8 * down >= of.n_out) continue;
        const float sum = sums[r][i / 4][i % 4];
        dev::store(of.y.row(at) + out + 8 * down, of.bias != nullptr ? dev::add(sum, bias[down]) : sum);
      }
    }
  }

  QR_DEVICE void operator()() const {
    if (first_row() >= of.n) return;
    const int n_steps = (of.depth() + kDepth - 1) / kDepth;
    for (int s = 0; s + 1 < kStages; ++s) {
      if (s < n_steps) fetch(s * kStageBytes, s);
      dev::copy_commit();
    }
    Sums sums = {};
    for (int s = 0; s < n_steps; ++s) {
      dev::copy_wait<kStages - 2>();
      dev::sync();  // before the stage that was read is written again
      const int next = s + kStages - 1;
      if (next < n_steps) fetch(next % kStages * kStageBytes, next);
      dev::copy_commit();
      QR_UNROLL
      for (int b = 0; b < kBlocks; ++b) {
        if (s * kDepth + b * kBlock < of.depth()) add_block(s % kStages * kStageBytes, b, sums);
      }
    }
    keep(sums);
  }
};

// Of many rows; of up to 16, where a block is small so that every multiprocessor reads weights.
using LinearTensorMany = LinearTensor<128, 128, 64, 2, 1>;
using LinearTensorFew = LinearTensor<16, 32, 16, 1, 4>;

}  // namespace quire::cuda
