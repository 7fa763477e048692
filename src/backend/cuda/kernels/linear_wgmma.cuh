// The product of linear_tensor.cuh for many rows on compute capability 9.0, by wgmma: 128 outputs of kRows rows. One
// thread fills a ring of stages by bulk copies, a panel each; two warpgroups, of 64 outputs each, multiply what has
// come. A sum goes over the same 16 k in the same order as there.
//
// Of every stage of the ring there are two mbarriers: `full`, whose phases end as what the stage holds has come, and
// `free`, whose phases end as all warps have read it. Round r of the ring is phase r of both. Grid: that of
// linear_tensor.cuh.
#pragma once
#include "backend/cuda/kernels/tensor_panels.cuh"

namespace quire::cuda {

template <int kRowsOf, int kStagesOf>
struct LinearWgmma {
  static constexpr int kRows = kRowsOf, kOutputs = 128, kStages = kStagesOf;
  static constexpr int kConsumers = 2 * 128, kThreads = kConsumers + 32;
  static constexpr int kPanelBytes = TensorPanels::kStageBytes;
  static constexpr int kOutputPanels = kOutputs / TensorPanels::kLines, kRowPanels = kRows / TensorPanels::kLines;
  static constexpr int kStageBytes = (kOutputPanels + kRowPanels) * kPanelBytes;
  static constexpr int kBarriersAt = kStages * kStageBytes, kSharedBytes = kBarriersAt + kStages * 2 * 8;
  static constexpr int kRuns = kRows / 128;  // a wgmma for each 128 rows
  static constexpr int kMajor = 9;           // of the compute capability that has it
  static constexpr int kMostFold = 0;
  static_assert(kSharedBytes <= 227 * 1024);

  TensorProduct of;

  QR_DEVICE int first_row() const { return (dev::block_z() * of.batch + dev::block_x()) * kRows; }
  QR_DEVICE dev::Shared<uint64_t> full(int stage) const { return dev::Shared<uint64_t>(kBarriersAt + stage * 8); }
  QR_DEVICE dev::Shared<uint64_t> free(int stage) const { return full(kStages + stage); }

  // A descriptor of lines of a panel in shared memory: eights of lines 1024 bytes apart, 128-byte swizzle.
  QR_DEVICE uint64_t operand(dev::Shared<uint8_t> panel) const {
    const auto at = static_cast<uint64_t>(panel.address(0));
    return (at & 0x3ffff) >> 4 | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
  }

  // Panel `panel` of `n_lines` lines; behind the last panel that one again, of which nothing is kept.
  QR_DEVICE const uint16_t* panel(const uint16_t* panels, int panel, int n_lines, int block) const {
    const int last = (n_lines - 1) / TensorPanels::kLines;
    return panels + TensorPanels::at(int64_t{panel < last ? panel : last} * TensorPanels::kLines,
                                     block * TensorPanels::kDepth, of.n_blocks);
  }

  QR_DEVICE void fetch(int stage, int block) const {
    const auto to = [&](int p) { return dev::Shared<uint8_t>(stage * kStageBytes + p * kPanelBytes); };
    dev::barrier_expect(full(stage), kStageBytes);
    QR_UNROLL
    for (int p = 0; p < kOutputPanels; ++p) {
      const uint16_t* from = panel(of.w, dev::block_y() * kOutputPanels + p, of.n_out, block);
      dev::bulk_copy(to(p), from, kPanelBytes, full(stage));
    }
    QR_UNROLL
    for (int p = 0; p < kRowPanels; ++p) {
      const uint16_t* from = panel(of.x, first_row() / TensorPanels::kLines + p, of.n, block);
      dev::bulk_copy(to(kOutputPanels + p), from, kPanelBytes, full(stage));
    }
  }

  QR_DEVICE void produce() const {
    int stage = 0, round = 0;
    for (int block = 0; block < of.n_blocks; ++block) {
      dev::barrier_wait(free(stage), (round & 1) ^ 1);
      fetch(stage, block);
      if (++stage == kStages) stage = 0, ++round;
    }
  }

  QR_DEVICE void consume() const {
    const int group = dev::thread() / 128;
    dev::WgmmaSums sums[kRuns];
    int stage = 0, round = 0, before = 0;
    for (int block = 0; block < of.n_blocks; ++block) {
      dev::barrier_wait(full(stage), round & 1);
      const uint64_t w = operand(dev::Shared<uint8_t>(stage * kStageBytes + group * kPanelBytes));
      const uint64_t x = operand(dev::Shared<uint8_t>(stage * kStageBytes + kOutputPanels * kPanelBytes));
      dev::wgmma_fence();
      QR_UNROLL
      for (int k = 0; k < TensorPanels::kDepth / 16; ++k) {
        QR_UNROLL
        for (int r = 0; r < kRuns; ++r)
          dev::wgmma(sums[r], w + (k * 32 >> 4), x + ((r * 2 * kPanelBytes + k * 32) >> 4));
      }
      dev::wgmma_commit();
      dev::wgmma_wait<1>(sums);  // the stage before has been read
      if (block > 0 && dev::thread() % 32 == 0) dev::barrier_arrive(free(before));
      before = stage;
      if (++stage == kStages) stage = 0, ++round;
    }
    dev::wgmma_wait<0>(sums);
    keep(sums);
  }

  QR_DEVICE void keep(const dev::WgmmaSums (&sums)[kRuns]) const {
    const int lane = dev::thread() % 32, row = first_row() + lane % 4 * 2;
    const int out = dev::block_y() * kOutputs + dev::thread() / 32 * 16 + lane / 4;
    float bias[2] = {};
    QR_UNROLL
    for (int i = 0; i < 2; ++i) {
      if (of.bias != nullptr && out + 8 * i < of.n_out) bias[i] = dev::load(of.bias + out + 8 * i);
    }
    QR_UNROLL
    for (int r = 0; r < kRuns; ++r) {
      QR_UNROLL
      for (int i = 0; i < 64; ++i) {
        const int at = row + r * 128 + i / 4 * 8 + i % 2, down = i / 2 % 2;
        if (at >= of.n || out + 8 * down >= of.n_out) continue;
        const float sum = sums[r][i];
        dev::store(of.y.row(at) + out + 8 * down, of.bias != nullptr ? dev::add(sum, bias[down]) : sum);
      }
    }
  }

  QR_DEVICE void operator()() const {
    if constexpr (dev::kHasWgmma) {
      if (first_row() >= of.n) return;
      if (dev::thread() == kConsumers) {
        for (int s = 0; s < kStages; ++s) {
          dev::barrier_init(full(s), 1);
          dev::barrier_init(free(s), kConsumers / 32);
        }
        dev::async_fence();  // of the barriers, and of what kernels before this one wrote
      }
      dev::sync();
      if (dev::thread() < kConsumers) {
        consume();
      } else if (dev::thread() == kConsumers) {
        produce();
      }
    }
  }
};

using LinearWgmmaMany = LinearWgmma<256, 4>;
using LinearWgmmaSome = LinearWgmma<128, 6>;

}  // namespace quire::cuda
