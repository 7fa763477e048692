// What adapters add to a product, y += B·(A·x), of a few matrices in a launch, each with rows of its own
// (docs/numerics.md, "Adapters"). Numbers are held as W says and multiplied as the f32 they stand for. A lies in panels
// of 16 ranks, [n_in][16] each, zeros behind the last; B as [rank][n_out], and where the product is scaled before two
// rows more: factors and summands.
#pragma once
#include "backend/cuda/kernels/linear_float.cuh"

namespace quire::cuda {

inline constexpr int kRankPanel = 16, kLowRankParts = 4;

// One of the matrices.
struct LowRankPart {
  const uint8_t* a = nullptr;
  const uint8_t* b = nullptr;
  float* h = nullptr;  // [n_rows, stride()]: A·x
  int first_row = 0, n_rows = 0;
  int rank = 0, n_out = 0;
  int column = 0;  // of y
  int scales = 0;  // whether B has factors and summands
  int first = 0;   // block of the grid's first axis; those of a part that is not there lie behind all
  int unused = 0;  // arguments are compared byte by byte (replays.h), so there are none without a value
  QR_DEVICE int stride() const { return (rank + kRankPanel - 1) / kRankPanel * kRankPanel; }
  QR_DEVICE float* row(int64_t i) const { return h + i * stride(); }
};

// The part that a block of the grid is of.
QR_DEVICE LowRankPart low_rank_part(const LowRankPart (&parts)[kLowRankParts]) {
  LowRankPart out = parts[0];
  for (int i = 1; i < kLowRankParts; ++i) {
    if (dev::block_x() >= parts[i].first) out = parts[i];
  }
  return out;
}

// h = A·x as of weights in F32. A block makes 16 ranks of four rows, a thread a rank in one of the eight segments of K.
// Grid: panels of all parts, runs of four rows.
template <class W>
struct LowRankDown {
  using Number = typename W::Number;
  static constexpr int kSegments = 8, kThreads = kRankPanel * kSegments, kRows = 4;
  static constexpr int kSharedBytes = kThreads * kRows * 4;
  LowRankPart parts[kLowRankParts];
  Rows<const float> x;
  int n_in, unused;

  QR_DEVICE void operator()() const {
    const LowRankPart mine = low_rank_part(parts);
    const int first = dev::block_y() * kRows, panel = dev::block_x() - mine.first;
    if (first >= mine.n_rows) return;
    const int j = dev::thread() % kRankPanel, segment = dev::thread() / kRankPanel;
    const int64_t n_blocks = (n_in + kFloatDepth - 1) / kFloatDepth;
    const int begin = static_cast<int>(n_blocks * segment / kSegments) * kFloatDepth;
    const int whole = static_cast<int>(n_blocks * (segment + 1) / kSegments) * kFloatDepth;
    const int end = whole < n_in ? whole : n_in;
    const auto* a = reinterpret_cast<const Number*>(mine.a) + int64_t{panel} * n_in * kRankPanel + j;
    const float* rows[kRows];  // beyond the last it is the last again
    float sums[kRows];
    for (int r = 0; r < kRows; ++r) {
      rows[r] = x.row(mine.first_row + (first + r < mine.n_rows ? first + r : mine.n_rows - 1));
      sums[r] = 0.0F;
    }
    for (int k = begin; k < end; ++k) {
      const float w = W().decoded(dev::load(a + int64_t{k} * kRankPanel));
      for (int r = 0; r < kRows; ++r) sums[r] = dev::fma(w, dev::load(rows[r] + k), sums[r]);
    }
    const dev::Shared<float> shared(0);
    for (int r = 0; r < kRows; ++r) shared[(segment * kRows + r) * kRankPanel + j] = sums[r];
    dev::sync();
    if (segment < kRows && first + segment < mine.n_rows) {
      dev::store(mine.row(first + segment) + panel * kRankPanel + j, joined(segment, j));
    }
  }

 private:
  QR_DEVICE float joined(int row, int j) const {
    const dev::Shared<float> shared(0);
    float s[kSegments];
    for (int i = 0; i < kSegments; ++i) s[i] = shared[(i * kRows + row) * kRankPanel + j];
    const float first = dev::add(dev::add(s[0], s[1]), dev::add(s[2], s[3]));
    return dev::add(first, dev::add(dev::add(s[4], s[5]), dev::add(s[6], s[7])));
  }
};

// y = y + B·h, or y · factor + summand + B·h. A thread makes an output of four rows. Grid: runs of 128 outputs of all
// parts, runs of four rows.
template <class W>
struct LowRankUp {
  using Number = typename W::Number;
  static constexpr int kThreads = 128, kSharedBytes = 0, kRows = 4;
  LowRankPart parts[kLowRankParts];
  Rows<float> y;

  QR_DEVICE void operator()() const {
    const LowRankPart mine = low_rank_part(parts);
    const int first = dev::block_y() * kRows, out = (dev::block_x() - mine.first) * kThreads + dev::thread();
    if (first >= mine.n_rows || out >= mine.n_out) return;
    const auto* b = reinterpret_cast<const Number*>(mine.b) + out;
    const float* h[kRows];
    float sums[kRows];
    for (int r = 0; r < kRows; ++r) {
      h[r] = mine.row(first + r < mine.n_rows ? first + r : mine.n_rows - 1);
      sums[r] = 0.0F;
    }
    for (int j = 0; j < mine.rank; ++j) {
      const float by = number(b, mine, j);
      for (int r = 0; r < kRows; ++r) sums[r] = dev::add(sums[r], dev::mul(dev::load(h[r] + j), by));
    }
    float factor = 1.0F, summand = 0.0F;
    if (mine.scales != 0) {
      factor = number(b, mine, mine.rank);
      summand = number(b, mine, mine.rank + 1);
    }
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= mine.n_rows) return;
      float* to = y.row(mine.first_row + first + r) + mine.column + out;
      float old = dev::load(to);
      if (mine.scales != 0) old = dev::add(dev::mul(old, factor), summand);
      dev::store(to, dev::add(old, sums[r]));
    }
  }

 private:
  QR_DEVICE float number(const Number* b, const LowRankPart& mine, int row) const {
    return W().decoded(dev::load(b + int64_t{row} * mine.n_out));
  }
};

// y[row] = rank ids[row] of an A, as a table of rows of n_in numbers.
template <class W>
struct EmbedLowRank {
  using Number = typename W::Number;
  Rows<float> y;
  const uint8_t* a;
  const int32_t* ids;
  int n_in;
  QR_DEVICE void of(int64_t row, int i) const {
    const int64_t id = dev::load(ids + row);
    const auto* from = reinterpret_cast<const Number*>(a) + (id / kRankPanel * n_in + i) * kRankPanel;
    dev::store(y.row(row) + i, W().decoded(dev::load(from + id % kRankPanel)));
  }
};

}  // namespace quire::cuda
