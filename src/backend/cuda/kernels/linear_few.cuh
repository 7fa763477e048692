// y = x·Wᵀ + b of integer weights for few rows, what a step of decoding is made of: weights are read once, straight
// from device memory, four activation groups ahead (docs/numerics.md, "Linear"). A block makes 16 outputs of 8 · kTiles
// rows, each of its warps one of the eight segments of K, whose sums are joined at the end. Up to three matrices of one
// format that share x. The first weights are asked for before the kernel ahead has ended. Grid: runs of 16 outputs of
// all matrices. Limits: 8 · kTiles rows.
#pragma once
#include "backend/cuda/kernels/packed.cuh"

namespace quire::cuda {

inline constexpr int kFewOutputs = 16, kFewParts = 3;

// One of the matrices.
struct FewPart {
  const uint8_t* w;   // [n_out / 64][stages]
  const float* bias;  // [n_out] or null
  int n_out;
  int first;   // run of 16 outputs in the grid; those of a part that is not there lie behind all
  int column;  // of y
};

struct alignas(16) Floats4 {
  float x[4];
};

struct FewProduct {
  FewPart parts[kFewParts];
  const int8_t* x;         // [n, 32 · n_groups]
  const float* x_scales;   // [n, pitch]
  const float* x_sums;     // scale · Σx of each scale group: [n, pitch], of scale groups of 16 [n, 2 · pitch]
  Rows<float> y;           // [n, n_out of all]
  int n, n_groups, pitch;  // activation groups of 32, rounded up to 8
};

template <class W, int kTiles>
struct LinearFew {
  static constexpr int kThreads = 256, kSegments = 8, kBatch = 4;
  static constexpr int kHalves = 32 / W::kScaleGroup;
  static constexpr int kSums = 4 * kTiles;  // of a lane: two outputs, two rows of each tile
  static constexpr int kSharedBytes = kThreads * kSums * 4;
  static constexpr bool kWaitsItself = true;
  static constexpr int kResident =
      kHalves == 2 && W::kMins || kTiles == 2 && (W::kMins || kHalves == 2) ? 1 : 2;  // blocks
  static constexpr int kMostFold =
      12 + (W::kMins ? 4 : 0) + (W::kIsProduct || W::kHasZeros ? 1 : 0) + (W::kIsProduct && W::kMins ? 1 : 0);

  FewProduct of;

  // Of an activation group what is the warp's.
  struct Weights {
    uint32_t a[4];
    float scale[kHalves][2], min[kHalves][2];
  };
  // Of four activation groups a row's scales, and the sums of their scale groups.
  struct RowScales {
    Floats4 scale, sums[kHalves];
  };

  QR_DEVICE FewPart part() const {
    FewPart out = of.parts[0];
    if (dev::block_x() >= of.parts[1].first) out = of.parts[1];
    if (dev::block_x() >= of.parts[2].first) out = of.parts[2];
    return out;
  }
  QR_DEVICE int first_output(const FewPart& part) const { return (dev::block_x() - part.first) * kFewOutputs; }

  // Of block b of a stage.
  QR_DEVICE void load_weights(const uint8_t* stage_at, int b, int first, Weights& w) const {
    const int lane = dev::thread() % 32;
    const Unpacked<W, StageInDevice> stage{{stage_at}};
    if constexpr (W::kLowBits == 8) {
      const Fragment mine = stage.stage.template at<Fragment>(0, (b * (kPackedOutputs / 16) + first / 16) * 32 + lane);
      for (int i = 0; i < 4; ++i) w.a[i] = mine.words[i];
    }
    for (int i = 0; i < 2; ++i) {
      const int out = first + lane / 4 + 8 * i;
      if constexpr (W::kLowBits != 8) {
        uint32_t two[2];
        stage.quads(b, out, lane % 4, two);
        w.a[i] = two[0];
        w.a[2 + i] = two[1];
      }
      for (int h = 0; h < kHalves; ++h) {
        w.scale[h][i] = stage.scale(b * kHalves + h, out);
        if constexpr (W::kMins) w.min[h][i] = stage.min(b * kHalves + h, out);
      }
    }
  }
  // Of the four activation groups from 4 · run on. What lies beyond a matrix's end in its last stage is zeros.
  QR_DEVICE void load_run(const uint8_t* panel, int run, int first, Weights (&w)[kBatch]) const {
    const uint8_t* stage = panel + int64_t{run / 2} * W::kBytes;
    for (int i = 0; i < kBatch; ++i) load_weights(stage, run % 2 * kBatch + i, first, w[i]);
  }

  // Rows beyond the last are the last again; nothing of them is stored.
  QR_DEVICE int64_t row(int i) const { return i < of.n ? i : of.n - 1; }

  QR_DEVICE void load_scales(int run, int tile, RowScales (&by)[2]) const {
    for (int i = 0; i < 2; ++i) {
      const int64_t at = row(tile * 8 + dev::thread() % 4 * 2 + i) * of.pitch + run * kBatch;
      by[i].scale = dev::load(reinterpret_cast<const Floats4*>(of.x_scales + at));
      if constexpr (!W::kMins) continue;
      for (int h = 0; h < kHalves; ++h) {
        by[i].sums[h] = dev::load(reinterpret_cast<const Floats4*>(of.x_sums + at * kHalves) + h);
      }
    }
  }

  // Half h of group i of a run.
  QR_DEVICE void add_half(
      const Weights& w, const uint32_t (&q)[2], const RowScales (&by)[2], int i, int h, float* sums) const {
    int32_t d[4];
    if constexpr (kHalves == 1) {
      dev::mma_s8_from(0x4b400000, d, w.a, q);
    } else {
      const uint32_t left[2] = {w.a[2 * h], w.a[2 * h + 1]}, right[1] = {q[h]};
      dev::mma_s8_from(0x4b400000, d, left, right);
    }
    for (int j = 0; j < 4; ++j) {
      const float dot = dev::sub(dev::as_float(static_cast<uint32_t>(d[j])), 12582912.0F);
      sums[j] = dev::fma(dot, dev::mul(w.scale[h][j / 2], by[j % 2].scale.x[i]), sums[j]);
      if constexpr (W::kMins) {
        const int at = i * kHalves + h;
        sums[j] = dev::fma(w.min[h][j / 2], by[j % 2].sums[at / 4].x[at % 4], sums[j]);
      }
    }
  }

  QR_DEVICE void add_run(const Weights (&w)[kBatch], int run, int begin, int end, float (&sums)[kSums]) const {
    const int lane = dev::thread() % 32;
    for (int t = 0; t < kTiles; ++t) {
      const int8_t* x = of.x + (row(t * 8 + lane / 4) * of.n_groups + run * kBatch) * 32 + lane % 4 * 4;
      RowScales by[2];
      load_scales(run, t, by);
      for (int i = 0; i < kBatch; ++i) {
        const int group = run * kBatch + i;
        if (group < begin || group >= end) continue;
        const uint32_t q[2] = {dev::load(reinterpret_cast<const uint32_t*>(x + i * 32)),
                               dev::load(reinterpret_cast<const uint32_t*>(x + i * 32 + 16))};
        for (int h = 0; h < kHalves; ++h) add_half(w[i], q, by, i, h, sums + 4 * t);
      }
    }
  }

  QR_DEVICE void join(const FewPart& part) const {
    const dev::Shared<float> shared(0);
    for (int i = dev::thread(); i < 32 * kSums; i += kThreads) {
      const int lane = i % 32, which = i / 32;
      float s[kSegments];
      for (int k = 0; k < kSegments; ++k) s[k] = shared[(k * kSums + which) * 32 + lane];
      const float first = dev::add(dev::add(s[0], s[1]), dev::add(s[2], s[3]));
      const float sum = dev::add(first, dev::add(dev::add(s[4], s[5]), dev::add(s[6], s[7])));
      const int out = first_output(part) + lane / 4 + which / 2 % 2 * 8;
      const int64_t to = which / 4 * 8 + lane % 4 * 2 + which % 2;
      if (out >= part.n_out || to >= of.n) continue;
      const float y = part.bias == nullptr ? sum : dev::add(sum, dev::load(part.bias + out));
      dev::store(of.y.row(to) + part.column + out, y);
    }
  }

  QR_DEVICE void operator()() const {
    const FewPart mine = part();
    const int segment = dev::thread() / 32, first = first_output(mine);
    const int begin = static_cast<int>(int64_t{of.n_groups} * segment / kSegments);
    const int end = static_cast<int>(int64_t{of.n_groups} * (segment + 1) / kSegments);
    const int64_t panel_bytes = int64_t{of.pitch / kPackedBlocks} * W::kBytes;
    const uint8_t* panel = mine.w + first / kPackedOutputs * panel_bytes;
    const int in_panel = first % kPackedOutputs;
    float sums[kSums];
    for (int i = 0; i < kSums; ++i) sums[i] = 0.0F;
    Weights w[kBatch];
    const int last = (end + kBatch - 1) / kBatch;
    int run = begin / kBatch;
    if (run < last) load_run(panel, run, in_panel, w);
    dev::wait_for_previous();
    for (; run < last; ++run) {
      Weights next[kBatch];
      if (run + 1 < last) load_run(panel, run + 1, in_panel, next);
      add_run(w, run, begin, end, sums);
      for (int i = 0; i < kBatch; ++i) w[i] = next[i];
    }
    const dev::Shared<float> shared(0);
    for (int i = 0; i < kSums; ++i) {
      shared[(dev::thread() / 32 * kSums + i) * 32 + dev::thread() % 32] = sums[i];
    }
    dev::sync();
    join(mine);
  }
};

template <class W>
using LinearOf8 = LinearFew<W, 1>;
template <class W>
using LinearOf16 = LinearFew<W, 2>;

}  // namespace quire::cuda
