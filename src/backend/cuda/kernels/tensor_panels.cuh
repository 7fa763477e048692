// How BF16 numbers lie for tensor cores, weights as well as rows that are rounded: panels of 64 lines (outputs, or
// rows), stage by stage of 64 k, which one bulk copy brings. In a stage a line has 128 bytes, and its piece p of 8
// numbers lies at p ^ line % 8: the 128-byte swizzle of wgmma, by which eight lines' pieces of the same k lie in
// different banks.
#pragma once
#include "backend/cuda/kernels/math.cuh"

namespace quire::cuda {

struct TensorPanels {
  static constexpr int kLines = 64, kDepth = 64, kPiece = 8, kStageBytes = kLines * kDepth * 2;
  // The number k of a line, of a matrix with n_blocks stages in a panel; numbers from a multiple of kPiece on follow
  // it.
  QR_DEVICE static constexpr int64_t at(int64_t line, int64_t k, int64_t n_blocks) {
    const int64_t stage = line / kLines * n_blocks + k / kDepth;
    return (stage * kLines + line % kLines) * kDepth + ((k / kPiece ^ line) % 8) * kPiece + k % kPiece;
  }
};

// Of a product by tensor cores, whatever its tiles. Panels end with zeros where a line ends; lines beyond the last are
// anything.
struct TensorProduct {
  const uint16_t* w;  // panels of n_out lines
  const float* bias;  // [n_out] or null
  const uint16_t* x;  // panels of n lines
  Rows<float> y;      // [n, n_out]
  int n, n_out, n_blocks;
  int batch;  // runs of rows that share weights while they are near: blocks of the grid's first axis
  QR_DEVICE int depth() const { return n_blocks * TensorPanels::kDepth; }
};

// Rows rounded to BF16 for it, two numbers a thread; zeros behind their end.
struct RoundRows {
  uint32_t* to;
  Rows<const float> x;
  int n_in, n_blocks;
  QR_DEVICE uint32_t bits(int64_t row, int k) const {
    return k < n_in ? dev::as_bits(rounded_to_bf16(dev::load(x.row(row) + k))) : 0U;
  }
  QR_DEVICE void of(int64_t row, int i) const {
    dev::store(to + TensorPanels::at(row, 2 * i, n_blocks) / 2, bits(row, 2 * i) >> 16 | bits(row, 2 * i + 1));
  }
};

// y[row] = row ids[row] of a table that lies so.
struct EmbedTensor {
  Rows<float> y;
  const uint16_t* w;
  const int32_t* ids;
  int n_blocks;
  QR_DEVICE void of(int64_t row, int i) const {
    const uint16_t bits = dev::load(w + TensorPanels::at(dev::load(ids + row), i, n_blocks));
    dev::store(y.row(row) + i, dev::as_float(uint32_t{bits} << 16));
  }
};

}  // namespace quire::cuda
