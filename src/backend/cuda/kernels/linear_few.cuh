// y = x·Wᵀ + b of integer weights for few rows, what a step of decoding is made of: weights are read once, through a
// ring of runs of four activation groups that each warp has for itself in shared memory (docs/numerics.md, "Linear"). A
// block makes 16 outputs of 8 · kTiles rows, each of its warps one of the eight segments of K, whose sums are joined at
// the end. Up to three matrices of one format that share x. The first weights are asked for before the kernel ahead has
// ended. Grid: runs of 16 outputs of all matrices. Limits: 8 · kTiles rows.
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

struct FewProduct {
  FewPart parts[kFewParts];
  const int8_t* x;         // [n, 32 · n_groups]
  const float* x_scales;   // [n, pitch]
  const float* x_sums;     // scale · Σx of each scale group: [n, pitch], of scale groups of 16 [n, 2 · pitch]
  Rows<float> y;           // [n, n_out of all]
  int n, n_groups, pitch;  // activation groups of 32, rounded up to 8
};

inline constexpr int kRingBytes = 104 << 10;

template <class W, int kTiles, int kMostBytes = kRingBytes>  // of the ring
struct LinearFew {
  static constexpr int kThreads = 256, kSegments = 8, kBatch = 4;
  static constexpr int kHalves = 32 / W::kScaleGroup;
  static constexpr int kSums = 4 * kTiles;  // of a lane: two outputs, two rows of each tile
  using Run = typename W::template Piece<kFewOutputs, kBatch>;
  // A row of x beside a run: numbers, scales, sums; rows begin at different banks.
  static constexpr int kRowScalesAt = 32 * kBatch, kRowSumsAt = kRowScalesAt + 16, kRowBytes = W::kMins ? 176 : 144;
  static constexpr int kRowPieces = kRowScalesAt / 16 + 1 + (W::kMins ? kHalves : 0);
  static constexpr int kSlotBytes = Run::kBytes + 8 * kTiles * kRowBytes;
  static constexpr int kFit = kMostBytes / (kSegments * kSlotBytes);
  static constexpr int kSlots = kFit < 3 ? 3 : kFit > 6 ? 6 : kFit;
  static constexpr int kJoinAt = kSegments * kSlots * kSlotBytes, kSharedBytes = kJoinAt + kThreads * kSums * 4;
  static constexpr int kPieces = (Run::kBytes / 16 + 31) / 32;  // of a run, a lane's
  static constexpr bool kWaitsItself = true;
  static constexpr int kResident = kSharedBytes <= 113 << 10 ? 2 : 1;  // blocks
  static constexpr int kMostFold = 12 + (W::kMins ? 4 : 0) + 2 * W::kScaleProducts / kTiles;

  FewProduct of;

  // Where the lane's pieces of a run lie in a stage, of the stage's first run and of its second.
  struct Sources {
    int at[2][kPieces];
  };
  // Of what is multiplied with an activation group.
  struct Weights {
    uint32_t a[4];
    float scale[kHalves][2], min[kHalves][2];
  };

  QR_DEVICE FewPart part() const {
    FewPart out = of.parts[0];
    if (dev::block_x() >= of.parts[1].first) out = of.parts[1];
    if (dev::block_x() >= of.parts[2].first) out = of.parts[2];
    return out;
  }
  QR_DEVICE int first_output(const FewPart& part) const { return (dev::block_x() - part.first) * kFewOutputs; }

  // Of a row of halves or bytes of a run the row in its stage; kRows: of a stage's whole plane of them.
  template <int kEach, int kRows>
  QR_DEVICE int row_in_stage(int row, int run) const {
    return row / kEach * kRows + row % kEach + run * kEach;
  }
  // Byte `byte` of a run of these outputs, in its stage.
  QR_DEVICE int source(int byte, int first, int run) const {
    if (byte < Run::kHighAt) {
      constexpr int kBlock = kFewOutputs * 4 * W::kLowBits;
      return ((byte / kBlock + run * kBatch) * kPackedOutputs + first) * 4 * W::kLowBits + byte % kBlock;
    }
    if (byte < Run::kHalvesAt) {
      constexpr int kBlock = kFewOutputs * 4 * (W::kHighBits > 0 ? W::kHighBits : 1);
      const int at = byte - Run::kHighAt;
      return W::kHighAt + ((at / kBlock + run * kBatch) * kPackedOutputs + first) * 4 * W::kHighBits + at % kBlock;
    }
    if (byte < Run::kBytesAt) {
      const int at = byte - Run::kHalvesAt, row = at / (2 * kFewOutputs);
      const int in_stage = W::kIsProduct ? row : row_in_stage<kBatch, kPackedBlocks>(row, run);
      return W::kHalvesAt + (in_stage * kPackedOutputs + first) * 2 + at % (2 * kFewOutputs);
    }
    const int at = byte - Run::kBytesAt;
    const int in_stage = row_in_stage<Run::kGroups, W::kScaleGroups>(at / kFewOutputs, run);
    return W::kBytesAt + in_stage * kPackedOutputs + first + at % kFewOutputs;
  }

  QR_DEVICE Sources sources(int first) const {
    Sources out;
    QR_UNROLL for (int i = 0; i < kPieces; ++i) {
      const int byte = (i * 32 + dev::thread() % 32) * 16;
      for (int run = 0; run < 2; ++run) out.at[run][i] = byte < Run::kBytes ? source(byte, first, run) : 0;
    }
    return out;
  }

  QR_DEVICE int slot_at(int run) const { return (dev::thread() / 32 * kSlots + run % kSlots) * kSlotBytes; }

  // Asks for a run's weights, and for its rows of x.
  QR_DEVICE void fetch_weights(const uint8_t* panel, const Sources& from, int run) const {
    const dev::Shared<uint8_t> slot(slot_at(run));
    const uint8_t* stage = panel + int64_t{run / 2} * W::kBytes;
    QR_UNROLL for (int i = 0; i < kPieces; ++i) {
      const int byte = (i * 32 + dev::thread() % 32) * 16;
      if (byte < Run::kBytes) dev::copy16(slot, byte, stage + (run % 2 == 0 ? from.at[0][i] : from.at[1][i]), true);
    }
  }
  QR_DEVICE void fetch_rows(int run) const {
    const dev::Shared<uint8_t> slot(slot_at(run) + Run::kBytes);
    for (int i = dev::thread() % 32; i < of.n * kRowPieces; i += 32) {
      const int row = i / kRowPieces, piece = i % kRowPieces, k = run * kBatch * 32 + piece * 16;
      const int64_t scales = int64_t{row} * of.pitch + run * kBatch;
      const void* from = of.x + int64_t{row} * of.n_groups * 32 + k;
      bool is_in = piece >= kRowScalesAt / 16 || k < of.n_groups * 32;
      if (piece == kRowScalesAt / 16) from = of.x_scales + scales;
      if (piece > kRowScalesAt / 16) from = of.x_sums + scales * kHalves + (piece - kRowScalesAt / 16 - 1) * 4;
      dev::copy16(slot, row * kRowBytes + piece * 16, is_in ? from : of.x, is_in);
    }
  }

  // Of block b of the run in a slot.
  QR_DEVICE void load_weights(int slot, int b, Weights& w) const {
    const int lane = dev::thread() % 32;
    const Unpacked<W, StageInShared, Run> run{{slot}};
    if constexpr (W::kLowBits == 8) {
      const Fragment mine = run.stage.template at<Fragment>(0, b * 32 + lane);
      for (int i = 0; i < 4; ++i) w.a[i] = mine.words[i];
    }
    for (int i = 0; i < 2; ++i) {
      const int out = lane / 4 + 8 * i;
      if constexpr (W::kLowBits != 8) {
        uint32_t two[2];
        run.quads(b, out, lane % 4, two);
        w.a[i] = two[0];
        w.a[2 + i] = two[1];
      }
      for (int h = 0; h < kHalves; ++h) {
        w.scale[h][i] = run.scale(b * kHalves + h, out);
        if constexpr (W::kMins) w.min[h][i] = run.min(b * kHalves + h, out);
      }
    }
  }

  // Where row i of x lies in a slot; rows beyond the last are the last again: nothing of them is stored.
  QR_DEVICE int row_at(int slot, int i) const { return slot + Run::kBytes + (i < of.n ? i : of.n - 1) * kRowBytes; }

  // What the rows of a lane's sums are multiplied by, of each group of a run.
  struct RowScales {
    FourFloats scale, sums[kHalves];
  };
  QR_DEVICE RowScales scales_of(int slot, int row) const {
    const dev::Shared<FourFloats> at(row_at(slot, row) + kRowScalesAt);
    RowScales out;
    out.scale = at[0];
    if constexpr (W::kMins) {
      for (int h = 0; h < kHalves; ++h) out.sums[h] = at[1 + h];
    }
    return out;
  }

  // Half h of group i of a run.
  struct Half {
    int i, h;
  };
  QR_DEVICE void add_half(
      const Weights& w, const uint32_t (&q)[2], const RowScales (&by)[2], Half half, float* sums) const {
    int32_t d[4];
    if constexpr (kHalves == 1) {
      dev::mma_s8_from(0x4b400000, d, w.a, q);
    } else {
      const uint32_t left[2] = {w.a[2 * half.h], w.a[2 * half.h + 1]}, right[1] = {q[half.h]};
      dev::mma_s8_from(0x4b400000, d, left, right);
    }
    for (int j = 0; j < 4; ++j) {
      const float dot = dev::sub(dev::as_float(static_cast<uint32_t>(d[j])), 12582912.0F);
      sums[j] = dev::fma(dot, dev::mul(w.scale[half.h][j / 2], by[j % 2].scale.x[half.i]), sums[j]);
      if constexpr (W::kMins) {
        const int at = half.i * kHalves + half.h;
        sums[j] = dev::fma(w.min[half.h][j / 2], by[j % 2].sums[at / 4].x[at % 4], sums[j]);
      }
    }
  }

  QR_DEVICE void add_run(int run, int begin, int end, float (&sums)[kSums]) const {
    const int lane = dev::thread() % 32, slot = slot_at(run);
    RowScales by[kTiles][2];
    for (int t = 0; t < kTiles; ++t) {
      for (int i = 0; i < 2; ++i) by[t][i] = scales_of(slot, t * 8 + lane % 4 * 2 + i);
    }
    QR_UNROLL for (int i = 0; i < kBatch; ++i) {
      const int group = run * kBatch + i;
      if (group < begin || group >= end) continue;
      Weights w;
      load_weights(slot, i, w);
      for (int t = 0; t < kTiles; ++t) {
        const dev::Shared<uint32_t> x(row_at(slot, t * 8 + lane / 4) + i * 32);
        const uint32_t q[2] = {x[lane % 4], x[4 + lane % 4]};
        for (int h = 0; h < kHalves; ++h) add_half(w, q, by[t], {i, h}, sums + 4 * t);
      }
    }
  }

  QR_DEVICE void join(const FewPart& part) const {
    const dev::Shared<float> shared(kJoinAt);
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
    const int from = begin / kBatch, last = begin < end ? (end + kBatch - 1) / kBatch : from;
    const uint8_t* panel = mine.w + first / kPackedOutputs * (int64_t{of.pitch / kPackedBlocks} * W::kBytes);
    const Sources at = sources(first % kPackedOutputs);
    for (int i = 0; i < kSlots - 1; ++i) {
      if (from + i < last) fetch_weights(panel, at, from + i);
    }
    dev::wait_for_previous();
    for (int i = 0; i < kSlots - 1; ++i) {
      if (from + i < last) fetch_rows(from + i);
      dev::copy_commit();
    }
    float sums[kSums];
    for (int i = 0; i < kSums; ++i) sums[i] = 0.0F;
    for (int run = from; run < last; ++run) {
      dev::copy_wait<kSlots - 2>();
      dev::sync_warp();  // and all lanes are done with the slot that is filled next
      const int next = run + kSlots - 1;
      if (next < last) {
        fetch_weights(panel, at, next);
        fetch_rows(next);
      }
      dev::copy_commit();
      add_run(run, begin, end, sums);
    }
    const dev::Shared<float> shared(kJoinAt);
    for (int i = 0; i < kSums; ++i) shared[(segment * kSums + i) * 32 + dev::thread() % 32] = sums[i];
    dev::sync();
    join(mine);
  }
};

template <class W>
using LinearOf8 = LinearFew<W, 1>;
template <class W>
using LinearOf8Small = LinearFew<W, 1, kLeastShared - 4096>;  // beside the sums
template <class W>
using LinearOf16 = LinearFew<W, 2>;

}  // namespace quire::cuda
