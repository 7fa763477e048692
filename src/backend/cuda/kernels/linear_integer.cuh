// y = x·Wᵀ + b of integer weights and quantised rows (docs/numerics.md, "Linear"): scale groups of 32 by mma.m16n8k32,
// those of 16 by m16n8k16, exact, added by fma in eight segments. A block makes 64 outputs of 16 rows, a warp 16
// outputs; weights (packed.cuh), activations and what scales them come by cp.async, 256 k a stage, two stages. Grid:
// outputs / 64, rows / 16. An integer sum starts at the bits of 1.5·2^23, so that its bits are those of a float that a
// subtraction makes right.
#pragma once
#include "backend/cuda/kernels/packed.cuh"
#include "backend/cuda/kernels/segments.cuh"

namespace quire::cuda {

// Of a product whatever its format.
struct IntegerProduct {
  const uint8_t* w;        // [n_out / 64][n_groups / 8] stages
  const float* bias;       // [n_out] or null
  const int8_t* x;         // [n, 32 · n_groups]
  const float* x_scales;   // [n, pitch]
  const float* x_sums;     // scale · Σx of each scale group: [n, pitch], of scale groups of 16 [n, 2 · pitch]
  Rows<float> y;           // [n, n_out]
  int n, n_out, n_groups;  // activation groups of 32
  int pitch;               // n_groups rounded up to 8
};

template <class W>
struct LinearInteger {
  static constexpr int kThreads = 128, kOutputs = kPackedOutputs, kRows = 16, kGroups = kPackedBlocks;
  static constexpr int kHalves = 32 / W::kScaleGroup;                // scale groups of an activation group
  static constexpr int kDepth = kPackedDepth, kPitch = kDepth + 16;  // rows of x begin at different banks
  static constexpr int kSums = W::kMins ? kGroups * kHalves : 0;     // of a row
  static constexpr int kXAt = W::kBytes, kXScalesAt = kXAt + kRows * kPitch,
                       kXSumsAt = kXScalesAt + kRows * kGroups * 4;
  static constexpr int kStageBytes = kXSumsAt + kRows * kSums * 4;
  static constexpr int kSharedBytes = 2 * kStageBytes;
  // FP32 instructions for each mma: four numbers made floats, their scales multiplied, added; with mins four more; and
  // one for a scale that is a product, one for such a min: they are made for two outputs and serve two mma.
  static constexpr int kMostFold =
      12 + (W::kMins ? 4 : 0) + (W::kIsProduct || W::kHasZeros ? 1 : 0) + (W::kIsProduct && W::kMins ? 1 : 0);

  IntegerProduct of;

  // Numbers of the block's rows [n, row_pitch], kEach of each from `first` on.
  template <int kEach>
  QR_DEVICE void fetch_floats(int to, const float* from, int64_t row_pitch, int first) const {
    constexpr int kPieces = kEach / 4;
    const dev::Shared<float> at(to);
    for (int i = dev::thread(); i < kRows * kPieces; i += kThreads) {
      const int64_t row = int64_t{dev::block_y()} * kRows + i / kPieces;
      const bool is_in = row < of.n;
      dev::copy16(at, i * 4, from + (is_in ? row * row_pitch + first + i % kPieces * 4 : 0), is_in);
    }
  }

  // Asks for activation groups [8 · step, 8 · step + 8) of the block's weights and rows.
  QR_DEVICE void fetch(int stage, int step) const {
    const int base = stage * kStageBytes;
    const dev::Shared<uint8_t> bytes(base);
    const uint8_t* w = of.w + (int64_t{dev::block_x()} * (of.pitch / kGroups) + step) * W::kBytes;
    for (int i = dev::thread() * 16; i < W::kBytes; i += kThreads * 16) dev::copy16(bytes, i, w + i, true);
    constexpr int kPieces = kDepth / 16;
    const int64_t depth = int64_t{of.n_groups} * 32;
    for (int i = dev::thread(); i < kRows * kPieces; i += kThreads) {
      const int64_t row = int64_t{dev::block_y()} * kRows + i / kPieces, k = step * kDepth + i % kPieces * 16;
      const bool is_in = row < of.n && k < depth;
      dev::copy16(bytes, kXAt + i / kPieces * kPitch + i % kPieces * 16, of.x + (is_in ? row * depth + k : 0), is_in);
    }
    fetch_floats<kGroups>(base + kXScalesAt, of.x_scales, of.pitch, step * kGroups);
    if constexpr (W::kMins) fetch_floats<kSums>(base + kXSumsAt, of.x_sums, int64_t{of.pitch} * kHalves, step * kSums);
    dev::copy_commit();
  }

  // Of the warp's 16 outputs the weights of activation group b, as mma wants them.
  QR_DEVICE void load_weights(int base, int b, uint32_t (&a)[4]) const {
    const int lane = dev::thread() % 32, first = dev::thread() / 32 * 16;
    if constexpr (W::kLowBits == 8) {
      const dev::Shared<Fragment> fragments(base);
      const Fragment mine = fragments[(b * kOutputs / 16 + first / 16) * 32 + lane];
      for (int i = 0; i < 4; ++i) a[i] = mine.words[i];
    } else {
      const Unpacked<W, StageInShared> w{{base}};
      for (int i = 0; i < 2; ++i) {
        uint32_t two[2];
        w.quads(b, first + lane / 4 + 8 * i, lane % 4, two);
        a[i] = two[0];
        a[2 + i] = two[1];
      }
    }
  }

  // What a scale group's four products of a lane are multiplied by, and what is added to them: of its two outputs, and
  // of its two rows.
  struct Scales {
    float w[2], w_min[2], x[2], x_sum[2];
  };

  QR_DEVICE void add_products(const int32_t (&d)[4], const Scales& by, float* sums) const {
    for (int i = 0; i < 4; ++i) {
      const float dot = dev::sub(dev::as_float(static_cast<uint32_t>(d[i])), 12582912.0F);
      sums[i] = dev::fma(dot, dev::mul(by.w[i / 2], by.x[i % 2]), sums[i]);
      if constexpr (W::kMins) sums[i] = dev::fma(by.w_min[i / 2], by.x_sum[i % 2], sums[i]);
    }
  }

  // A scale group, half h of activation group b, of both runs of eight rows.
  QR_DEVICE void add_scale_group(
      int base, int group, const uint32_t (&a)[4], const uint32_t (&q)[4], SegmentSums& sums) const {
    const int lane = dev::thread() % 32, b = group / kHalves, h = group % kHalves;
    const Unpacked<W, StageInShared> w{{base}};
    const dev::Shared<float> x_scales(base + kXScalesAt), x_sums(base + kXSumsAt);
    Scales by;
    for (int i = 0; i < 2; ++i) {
      const int out = dev::thread() / 32 * 16 + lane / 4 + 8 * i;
      by.w[i] = w.scale(group, out);
      if constexpr (W::kMins) by.w_min[i] = w.min(group, out);
    }
    for (int t = 0; t < 2; ++t) {
      for (int i = 0; i < 2; ++i) {
        const int row = t * 8 + lane % 4 * 2 + i;
        by.x[i] = x_scales[row * kGroups + b];
        if constexpr (W::kMins) by.x_sum[i] = x_sums[row * kSums + group];
      }
      int32_t d[4] = {0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000};
      if constexpr (kHalves == 1) {
        const uint32_t right[2] = {q[2 * t], q[2 * t + 1]};
        dev::mma_s8(d, a, right);
      } else {
        const uint32_t left[2] = {a[2 * h], a[2 * h + 1]}, right[1] = {q[2 * t + h]};
        dev::mma_s8(d, left, right);
      }
      add_products(d, by, sums.now + t * 4);
    }
  }

  QR_DEVICE void add_group(int base, int b, SegmentSums& sums) const {
    const int lane = dev::thread() % 32;
    const dev::Shared<int8_t> bytes(base);
    uint32_t a[4], q[4];
    load_weights(base, b, a);
    dev::load_matrix(q, bytes, kXAt + (lane / 16 * 8 + lane % 8) * kPitch + b * 32 + lane / 8 % 2 * 16);
    for (int h = 0; h < kHalves; ++h) add_scale_group(base, b * kHalves + h, a, q, sums);
  }

  QR_DEVICE void operator()() const {
    SegmentSums sums;
    sums.begin(of.n_groups);
    const int n_steps = of.pitch / kGroups;
    fetch(0, 0);
    for (int s = 0; s < n_steps; ++s) {
      if (s + 1 < n_steps) {
        fetch((s + 1) % 2, s + 1);
        dev::copy_wait<1>();
      } else {
        dev::copy_wait<0>();
      }
      dev::sync();
      for (int b = 0; b < kGroups && s * kGroups + b < of.n_groups; ++b) {
        while (s * kGroups + b == sums.end) sums.close(of.n_groups);
        add_group(s % 2 * kStageBytes, b, sums);
      }
      dev::sync();  // before the stage is written again
    }
    while (sums.segment < 8) sums.close(of.n_groups);
    const int lane = dev::thread() % 32, warp = dev::thread() / 32;
    for (int i = 0; i < 8; ++i) {
      const int64_t out = int64_t{dev::block_x()} * kOutputs + warp * 16 + lane / 4 + i / 2 % 2 * 8;
      const int64_t row = int64_t{dev::block_y()} * kRows + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (out >= of.n_out || row >= of.n) continue;
      const float sum = sums.four[i];
      dev::store(of.y.row(row) + out, of.bias == nullptr ? sum : dev::add(sum, dev::load(of.bias + out)));
    }
  }
};

// y[row] = row ids[row] of a table that lies as LinearInteger wants it.
struct IntegerRows {
  Rows<float> y;
  const uint8_t* w;
  const int32_t* ids;
  int n_stages;  // of a row
};
template <class W>
struct EmbedInteger {
  IntegerRows of_rows;
  QR_DEVICE void of(int64_t row, int i) const {
    const int64_t id = dev::load(of_rows.ids + row);
    const int out = static_cast<int>(id % kPackedOutputs), block = i / 32 % kPackedBlocks, quad = i / 4 % 8;
    const int64_t stage = id / kPackedOutputs * of_rows.n_stages + i / kPackedDepth;
    const Unpacked<W, StageInDevice> w{{of_rows.w + stage * W::kBytes}};
    uint32_t two[2];
    w.quads(block, out, quad % 4, two);
    const auto number = static_cast<int8_t>(two[quad / 4] >> (8 * (i % 4)) & 0xffU);
    const int group = i % kPackedDepth / W::kScaleGroup;
    float v = dev::mul(w.scale(group, out), dev::whole(number));
    if constexpr (W::kMins) v = dev::add(v, w.min(group, out));
    dev::store(of_rows.y.row(row) + i, v);
  }
};

}  // namespace quire::cuda
