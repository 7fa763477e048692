// y = x·Wᵀ + b of BF16 weights by bf16 mma (docs/numerics.md, "Tensor arithmetic"): rows are rounded to BF16, and an
// output is one sum over all k in order, 16 at a time. A number of the result depends on its row and its output alone,
// so tiles of every shape give the same bits.
//
// Weights lie in panels of 64 outputs, stage by stage of 32 k, of the same size as those of linear_float.cuh; in a
// stage 16 outputs × 16 k lie as a warp's lanes want them for mma. Weights and rows come by cp.async, kBlocks · 32 k a
// stage of the ring. Grid: runs of rows of a batch, outputs / kOutputs, batches of rows; blocks beyond the rows do
// nothing.
#pragma once
#include "backend/cuda/kernels/linear_float.cuh"
#include "backend/cuda/kernels/packed.cuh"

namespace quire::cuda {

// How BF16 weights lie for it.
struct TensorBF16 {
  static constexpr int kTileBytes = 16 * kFloatDepth * 2;  // of 16 outputs × 32 k
  static constexpr int kStageBytes = kFloatOutputs / 16 * kTileBytes;
  static_assert(kStageBytes == FloatPanels<FloatBF16>::kStageBytes);
  // The number in a stage of k, below 32, of an output of the panel: of a lane four words of two k each, for outputs
  // o, o + 8, and both again 8 k further.
  QR_DEVICE static constexpr int at(int k, int output) {
    const int lane = output % 8 * 4 + k % 8 / 2, word = output % 16 / 8 + k % 16 / 8 * 2;
    return (((output / 16 * 2 + k / 16) * 32 + lane) * 4 + word) * 2 + k % 2;
  }
};

// Rows rounded to BF16 for it, two numbers a thread; zeros behind their end. `to`: [n, 32 · blocks of 32 k].
struct RoundRows {
  uint32_t* to;
  Rows<const float> x;
  int n_in, n_words;  // of a row
  QR_DEVICE uint32_t bits(int64_t row, int k) const {
    return k < n_in ? dev::as_bits(rounded_to_bf16(dev::load(x.row(row) + k))) : 0U;
  }
  QR_DEVICE void of(int64_t row, int i) const {
    dev::store(to + row * n_words + i, bits(row, 2 * i) >> 16 | bits(row, 2 * i + 1));
  }
};

// Of a product whatever its tiles.
struct TensorProduct {
  const uint8_t* w;   // [n_out / 64][n_blocks] stages
  const float* bias;  // [n_out] or null
  const uint16_t* x;  // [n, 32 · n_blocks], below 2 GiB
  Rows<float> y;      // [n, n_out]
  int n, n_out, n_blocks;
  int batch;  // runs of rows that share weights while they are near: blocks of the grid's first axis
};

// kWarpRows rows of a warp, whose outputs are kTiles tiles of 16.
template <int kRowsOf, int kOutputsOf, int kWarpRows, int kTiles, int kBlocks>
struct LinearTensor {
  static constexpr int kRows = kRowsOf, kOutputs = kOutputsOf, kDepth = kBlocks * kFloatDepth;
  static constexpr int kWarpsOfOutputs = kOutputs / 16 / kTiles;
  static constexpr int kThreads = 32 * kWarpsOfOutputs * (kRows / kWarpRows);
  static constexpr int kPitch = kDepth * 2 + 16;  // eight rows of x begin at different banks
  static constexpr int kXAt = kOutputs / 16 * kBlocks * TensorBF16::kTileBytes, kStageBytes = kXAt + kRows * kPitch;
  static constexpr int kStages = 4, kSharedBytes = kStages * kStageBytes;
  static constexpr int kMostFold = 0;  // FP32 instructions for each mma
  static_assert(kSharedBytes <= 163 * 1024);
  using Sums = float[kWarpRows / 8][kTiles][4];

  TensorProduct of;

  QR_DEVICE int first_row() const { return (dev::block_z() * of.batch + dev::block_x()) * kRows; }
  // The first tile of outputs and the first row of this thread's warp, in its block.
  QR_DEVICE int warp_tile() const { return dev::thread() / 32 % kWarpsOfOutputs * kTiles; }
  QR_DEVICE int warp_row() const { return dev::thread() / 32 / kWarpsOfOutputs * kWarpRows; }

  // Asks for k [step · kDepth, (step + 1) · kDepth) of the block's weights and rows, zeros where there are none.
  QR_DEVICE void fetch(int base, int step) const {
    constexpr int kTilePieces = TensorBF16::kTileBytes / 16, kRowPieces = kDepth / 8;  // of 16 bytes
    constexpr int kBlockTiles = kOutputs / 16, kPanelTiles = kFloatOutputs / 16;
    const dev::Shared<uint8_t> w(base), x(base + kXAt);
    const int n_tiles = (of.n_out + kFloatOutputs - 1) / kFloatOutputs * kPanelTiles;
    QR_UNROLL
    for (int i = 0; i < kBlockTiles * kBlocks * kTilePieces; i += kThreads) {
      const int piece = i + dev::thread(), tile = dev::block_y() * kBlockTiles + piece / kTilePieces % kBlockTiles;
      const int block = step * kBlocks + piece / kTilePieces / kBlockTiles;
      const int64_t at = (int64_t{tile / kPanelTiles} * of.n_blocks + block) * kPanelTiles + tile % kPanelTiles;
      const uint8_t* from = of.w + at * TensorBF16::kTileBytes + piece % kTilePieces * 16;
      dev::copy16(w, piece * 16, from, tile < n_tiles && block < of.n_blocks);
    }
    QR_UNROLL
    for (int i = 0; i < kRows * kRowPieces; i += kThreads) {
      const int piece = i + dev::thread(), row = piece / kRowPieces, in_row = piece % kRowPieces;
      const int depth = of.n_blocks * kFloatDepth, k = step * kDepth + in_row * 8;
      const uint16_t* from = of.x + ((first_row() + row) * depth + k);
      dev::copy16(x, row * kPitch + in_row * 16, from, first_row() + row < of.n && k < depth);
    }
  }

  // Of block `block` of a stage: 32 k of 8 rows are two operands of mma.
  QR_DEVICE void add_block(int base, int block, Sums& sums) const {
    const int lane = dev::thread() % 32;
    const dev::Shared<Fragment> w(base + (block * (kOutputs / 16) + warp_tile()) * TensorBF16::kTileBytes);
    const dev::Shared<uint8_t> x(base + kXAt + (warp_row() + lane % 8) * kPitch + block * 64 + lane / 8 * 16);
    Fragment a[kTiles][2];
    QR_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      for (int half = 0; half < 2; ++half) a[t][half] = w[(t * 2 + half) * 32 + lane];
    }
    QR_UNROLL
    for (int r = 0; r < kWarpRows / 8; ++r) {
      uint32_t b[4];
      dev::load_matrix(b, x, r * 8 * kPitch);
      const uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
      QR_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        dev::mma_bf16(sums[r][t], a[t][0].words, first);
        dev::mma_bf16(sums[r][t], a[t][1].words, second);
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
    const int n_steps = (of.n_blocks + kBlocks - 1) / kBlocks;
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
        if (s * kBlocks + b < of.n_blocks) add_block(s % kStages * kStageBytes, b, sums);
      }
    }
    keep(sums);
  }
};

// Of many rows; of up to 16, where a block is small so that every multiprocessor reads weights.
using LinearTensorMany = LinearTensor<128, 128, 64, 2, 1>;
using LinearTensorFew = LinearTensor<16, 32, 16, 1, 4>;

// y[row] = row ids[row] of a table that lies so.
struct EmbedTensor {
  Rows<float> y;
  const uint16_t* w;
  const int32_t* ids;
  int n_blocks;
  QR_DEVICE void of(int64_t row, int i) const {
    const int64_t id = dev::load(ids + row), stage = id / kFloatOutputs * n_blocks + i / kFloatDepth;
    const int at = TensorBF16::at(i % kFloatDepth, static_cast<int>(id % kFloatOutputs));
    const uint16_t bits = dev::load(w + stage * (TensorBF16::kStageBytes / 2) + at);
    dev::store(y.row(row) + i, dev::as_float(uint32_t{bits} << 16));
  }
};

}  // namespace quire::cuda
