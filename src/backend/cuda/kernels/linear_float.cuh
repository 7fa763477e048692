// y = x·Wᵀ + b of weights that are floats (docs/numerics.md, "Linear"): fma for every k in order, of BF16 for pairs of
// k, in eight segments. A block makes 64 outputs of 16 rows, a thread two outputs of four rows. Weights lie in panels
// of 64 outputs, stage by stage of 32 k, k by k, zeros beyond the ends; behind a stage's numbers the scales of its
// outputs where a format has some. A stage comes by cp.async, two of them at a time. Grid: outputs / 64, rows / 16.
#pragma once
#include "backend/cuda/kernels/segments.cuh"

namespace quire::cuda {

struct FloatF32 {
  using Number = float;
  using Arithmetic = Plain;
  static constexpr bool kIsRounded = false, kIsScaled = false;
  QR_DEVICE float decoded(float w) const { return w; }
};
struct FloatF16 {
  using Number = uint16_t;
  using Arithmetic = Plain;
  static constexpr bool kIsRounded = false, kIsScaled = false;
  QR_DEVICE float decoded(uint16_t half) const { return dev::to_float(half); }
};
// Rows are rounded to BF16 too.
struct FloatBF16 {
  using Number = uint16_t;
  using Arithmetic = Flushing;
  static constexpr bool kIsRounded = true, kIsScaled = false;
  QR_DEVICE float decoded(uint16_t high) const { return dev::as_float(uint32_t{high} << 16); }
};
// e4m3 under a scale of each output and stage.
struct FloatF8 {
  using Number = uint8_t;
  using Arithmetic = Plain;
  static constexpr bool kIsRounded = false, kIsScaled = true;
  QR_DEVICE float decoded(uint8_t code) const { return float_of_e4m3(code); }
};

inline constexpr int kFloatOutputs = 64, kFloatDepth = 32;  // of a stage

// A matrix of such weights in device memory, [panels][n_blocks] stages.
template <class W>
struct FloatPanels {
  using Number = typename W::Number;
  static constexpr int kScalesAt = kFloatDepth * kFloatOutputs * static_cast<int>(sizeof(Number));
  static constexpr int kStageBytes = kScalesAt + (W::kIsScaled ? kFloatOutputs * 4 : 0);
  const uint8_t* data;
  QR_DEVICE const uint8_t* stage(int64_t panel, int n_blocks, int block) const {
    return data + (panel * n_blocks + block) * kStageBytes;
  }
};

template <class W>
struct LinearFloat {
  using Panels = FloatPanels<W>;
  using Arithmetic = typename W::Arithmetic;
  using Sums = SegmentSums<Arithmetic>;
  static constexpr int kThreads = 128, kOutputs = kFloatOutputs, kRows = 16, kDepth = kFloatDepth;
  static constexpr int kStageBytes = Panels::kStageBytes;  // of weights
  static constexpr int kXAt = 2 * kStageBytes, kXBytes = kRows * kDepth * 4;
  static constexpr int kSharedBytes = kXAt + 2 * kXBytes;

  Panels w;             // [n_out, n_in]
  const float* bias;    // [n_out] or null
  Rows<const float> x;  // [n, n_in]
  Rows<float> y;        // [n, n_out]
  int n, n_out, n_in;

  QR_DEVICE int n_blocks() const { return (n_in + kDepth - 1) / kDepth; }

  // Asks for 32 k of the panel and puts those of the rows where they belong.
  QR_DEVICE void fetch(int stage, int step) const {
    const uint8_t* from = w.stage(dev::block_x(), n_blocks(), step);
    const dev::Shared<uint8_t> to(stage * kStageBytes);
    for (int i = dev::thread() * 16; i < kStageBytes; i += kThreads * 16) dev::copy16(to, i, from + i, true);
    dev::copy_commit();
    const dev::Shared<float> of_x(kXAt + stage * kXBytes);
    for (int i = dev::thread(); i < kRows * kDepth; i += kThreads) {
      const int64_t row = int64_t{dev::block_y()} * kRows + i / kDepth;
      const int k = step * kDepth + i % kDepth;
      const float number = row < n && k < n_in ? dev::load(x.row(row) + k) : 0.0F;
      of_x[i] = W::kIsRounded ? rounded_to_bf16(number) : number;
    }
  }

  // The product of k and this thread's two outputs.
  QR_DEVICE void add_one(int stage, int k, const float (&scales)[2], Sums& sums) const {
    const int lane = dev::thread() % 32, first_row = dev::thread() / 32 * 4;
    const dev::Shared<typename W::Number> of_w(stage * kStageBytes);
    const dev::Shared<float> of_x(kXAt + stage * kXBytes);
    float two[2] = {W().decoded(of_w[k * kOutputs + lane]), W().decoded(of_w[k * kOutputs + 32 + lane])};
    for (int i = 0; i < 2; ++i) two[i] = W::kIsScaled ? dev::mul(scales[i], two[i]) : Arithmetic().operand(two[i]);
    for (int r = 0; r < 4; ++r) {
      const float v = of_x[(first_row + r) * kDepth + k];
      for (int i = 0; i < 2; ++i) sums.now[2 * r + i] = Arithmetic().fused(two[i], v, sums.now[2 * r + i]);
    }
  }

  QR_DEVICE void add_block(int stage, int depth, Sums& sums) const {
    float scales[2] = {};
    if constexpr (W::kIsScaled) {
      const dev::Shared<float> of_outputs(stage * kStageBytes + Panels::kScalesAt);
      for (int i = 0; i < 2; ++i) scales[i] = of_outputs[dev::thread() % 32 + i * 32];
    }
    if constexpr (W::kIsRounded) {
      for (int k = 0; k < depth; k += 2) {  // behind an odd end stand zeros
        add_one(stage, k + 1, scales, sums);
        add_one(stage, k, scales, sums);
      }
    } else {
      for (int k = 0; k < depth; ++k) add_one(stage, k, scales, sums);
    }
  }

  QR_DEVICE void operator()() const {
    Sums sums;
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
      float sum = sums.four[i];
      if (bias != nullptr) sum = Arithmetic().add(sum, Arithmetic().operand(dev::load(bias + out)));
      dev::store(y.row(row) + out, sum);
    }
  }
};

// y[row] = row ids[row] of a table that lies as LinearFloat wants it.
template <class W>
struct EmbedFloat {
  using Panels = FloatPanels<W>;
  Rows<float> y;
  Panels w;
  const int32_t* ids;
  int n_blocks;
  QR_DEVICE void of(int64_t row, int i) const {
    const int64_t id = dev::load(ids + row);
    const uint8_t* stage = w.stage(id / kFloatOutputs, n_blocks, i / kFloatDepth);
    const int output = static_cast<int>(id % kFloatOutputs);
    const auto* numbers = reinterpret_cast<const typename W::Number*>(stage);
    float number = W().decoded(dev::load(numbers + i % kFloatDepth * kFloatOutputs + output));
    if constexpr (W::kIsScaled) {
      number = dev::mul(dev::load(reinterpret_cast<const float*>(stage + Panels::kScalesAt) + output), number);
    }
    dev::store(y.row(row) + i, number);
  }
};

}  // namespace quire::cuda
