// y = x·Wᵀ + b of integer weights and quantised rows (docs/numerics.md, "Linear"): scale groups of 32 by mma.m16n8k32,
// those of 16 by m16n8k16, exact, added by fma in eight segments. A block makes 128 outputs, two panels (packed.cuh),
// of kRows rows: of 128 a warp 32 outputs of 64 rows, of fewer 16 outputs of all. What they need comes by cp.async, 128
// k a stage. An integer sum starts at the bits of 1.5·2^23, so that its bits are those of a float that a subtraction
// makes right. Grid: runs of rows of a batch, outputs / 128, batches of rows; blocks beyond the rows do nothing.
//
// Of the sums that wait to be joined, ((0+1)+(2+3))+((4+5)+(6+7)), a thread keeps those of one segment in registers,
// those of two in shared memory and those of four in y, where the result will be.
#pragma once
#include "backend/cuda/kernels/packed.cuh"

namespace quire::cuda {

// Of a product whatever its format.
struct IntegerProduct {
  const uint8_t* w;        // [n_out / 64][n_groups / 8] stages
  const float* bias;       // [n_out] or null
  const int8_t* x;         // [n, 32 · n_groups], below 2 GiB
  const float* x_scales;   // [n, pitch]
  const float* x_sums;     // scale · Σx of each scale group: [n, pitch], of scale groups of 16 [n, 2 · pitch]
  Rows<float> y;           // [n, n_out]
  int n, n_out, n_groups;  // activation groups of 32
  int pitch;               // n_groups rounded up to 8
  int batch;               // runs of rows that share weights while they are near: blocks of the grid's first axis
};
template <class W, int kRowsOf>
struct LinearInteger {
  using Half = typename W::template Piece<kPackedOutputs, kPackedBlocks / 2>;
  static constexpr int kThreads = 256, kPanels = 2, kOutputs = kPanels * kPackedOutputs, kRows = kRowsOf;
  static constexpr int kTiles = kRows == 128 ? 2 : 1;  // of 16 outputs, of a warp
  static constexpr int kWarpsOfOutputs = kOutputs / 16 / kTiles;
  static constexpr int kWarpRows = kRows / (kThreads / 32 / kWarpsOfOutputs), kSums = kTiles * kWarpRows / 2;
  static constexpr int kGroups = Half::kBlocks, kDepth = 32 * kGroups;  // of a step
  static constexpr int kHalves = 32 / W::kScaleGroup;                   // scale groups of an activation group
  static constexpr int kPitch = kDepth + 16;  // rows of x begin at different banks, and so do groups of floats:
  static constexpr int kFloats = kRows + 8;
  static constexpr int kXAt = kPanels * Half::kBytes, kXScalesAt = kXAt + kRows * kPitch,
                       kXSumsAt = kXScalesAt + kGroups * kFloats * 4;
  static constexpr int kStageBytes = kXSumsAt + (W::kMins ? kGroups * kHalves * kFloats * 4 : 0);
  static constexpr int kTwoBytes = kSums * kThreads * 4;
  // Three stages, or two where a block of compute capability 8.0 has no room for more.
  static constexpr int kStages = kTwoBytes + 3 * kStageBytes <= 163 * 1024 ? 3 : 2;
  static constexpr int kTwoAt = kStages * kStageBytes, kSharedBytes = kTwoAt + kTwoBytes;
  static constexpr int kResident = kTiles == 1 ? 2 : 1;
  // FP32 instructions for each mma: four numbers made floats, their scales multiplied, added; with mins four more; and
  // of scales that are products, and of such mins, at most one.
  static constexpr int kMostFold = 12 + (W::kMins ? 4 : 0) + (W::kScaleProducts > 0 ? 1 : 0);
  static_assert(kWarpRows % 16 == 0 && kSharedBytes <= 163 * 1024);

  IntegerProduct of;

  QR_DEVICE int run() const { return dev::block_z() * of.batch + dev::block_x(); }
  QR_DEVICE int first_row() const { return run() * kRows; }
  // The first output and the first row of a thread's warp.
  QR_DEVICE int warp_output(int thread) const { return thread / 32 % kWarpsOfOutputs * (16 * kTiles); }
  QR_DEVICE int warp_row(int thread) const { return thread / 32 / kWarpsOfOutputs * kWarpRows; }

  // kBytes bytes of the panel that this thread fetches.
  template <int kBytes>
  QR_DEVICE void fetch_run(int thread, int to, const uint8_t* from) const {
    constexpr int kEach = kThreads / kPanels * 16;
    const dev::Shared<uint8_t> bytes(to);
    const int first = thread % (kThreads / kPanels) * 16;
    QR_UNROLL for (int i = 0; i < kBytes; i += kEach) {
      if (i + kEach <= kBytes || i + first < kBytes) dev::copy16(bytes, i + first, from + i + first, true);
    }
  }

  // Half of a stage of each panel, the last panel twice where there is no other.
  QR_DEVICE void fetch_weights(int thread, int base, int step) const {
    constexpr int kHalfBytes = Half::kHalves * kPackedOutputs * 2, kBytesOf = Half::kByteRows * kPackedOutputs;
    const int mine = thread / (kThreads / kPanels), n_panels = (of.n_out + kPackedOutputs - 1) / kPackedOutputs;
    const int panel = dev::block_y() * kPanels + mine, h = step % 2;
    const int64_t stage = int64_t{panel < n_panels ? panel : n_panels - 1} * (of.pitch / kPackedBlocks) + step / 2;
    const uint8_t* from = of.w + stage * W::kBytes;
    const int to = base + mine * Half::kBytes;
    fetch_run<Half::kHighAt>(thread, to, from + h * Half::kHighAt);
    if constexpr (W::kHighBits > 0) {
      constexpr int kHighBytes = Half::kHalvesAt - Half::kHighAt;
      fetch_run<kHighBytes>(thread, to + Half::kHighAt, from + W::kHighAt + h * kHighBytes);
    }
    if constexpr (W::kIsProduct) {
      fetch_run<kHalfBytes>(thread, to + Half::kHalvesAt, from + W::kHalvesAt);
    } else if constexpr (W::kHalves > 0) {
      constexpr int kParts = W::kHalves / kPackedBlocks, kEach = kHalfBytes / kParts;
      for (int i = 0; i < kParts; ++i) {
        fetch_run<kEach>(thread, to + Half::kHalvesAt + i * kEach, from + W::kHalvesAt + (2 * i + h) * kEach);
      }
    }
    if constexpr (W::kByteRows > 0) {
      constexpr int kParts = W::kIsProduct && W::kMins ? 2 : 1, kEach = kBytesOf / kParts;
      for (int i = 0; i < kParts; ++i) {
        fetch_run<kEach>(thread, to + Half::kBytesAt + i * kEach, from + W::kBytesAt + (2 * i + h) * kEach);
      }
    }
  }

  // Where row i of a block lies: of sixteen rows a lane's four, which neighbour each other, are two of each tile of
  // mma.
  QR_DEVICE int place_of(int i) const { return i / 16 * 16 + i % 4 / 2 * 8 + i % 16 / 4 * 2 + i % 2; }

  // Numbers of kEach groups of the rows, [group][row].
  template <int kEach>
  QR_DEVICE void fetch_floats(int thread, int to, const float* from, int row_pitch) const {
    const dev::Shared<float> at(to + (thread % kEach * kFloats + thread / kEach) * 4);
    const int first = first_row() + thread / kEach;
    from += first * row_pitch + thread % kEach;
    QR_UNROLL for (int row = 0; row < kRows; row += kThreads / kEach) {
      if (kRows % (kThreads / kEach) != 0 && thread / kEach >= kRows) continue;
      dev::copy4(at, row, from + row * row_pitch, first + row < of.n);
    }
  }

  // Asks for activation groups [4 · step, 4 · step + 4) of the block's weights and rows.
  QR_DEVICE void fetch(int base, int step) const {
    // Blocks of 128 rows have no registers to keep addresses in.
    const int thread = kTiles == 1 ? dev::thread() : dev::fresh(dev::thread());
    fetch_weights(thread, base, step);
    constexpr int kPieces = kDepth / 16, kEach = kThreads / kPieces;
    const int mine = thread / kPieces, piece = thread % kPieces * 16;
    const dev::Shared<uint8_t> bytes(base + kXAt + place_of(mine) * kPitch + piece);
    const int first = first_row() + mine, k = step * kDepth + piece, depth = of.n_groups * 32;
    const int8_t* from = of.x + (first * depth + k);
    QR_UNROLL for (int row = 0; row < kRows; row += kEach) {
      dev::copy16(bytes, row * kPitch, from + row * depth, first + row < of.n && k < depth);
    }
    fetch_floats<kGroups>(thread, base + kXScalesAt, of.x_scales + step * kGroups, of.pitch);
    if constexpr (W::kMins) {
      constexpr int kSumsOfRow = kGroups * kHalves;
      fetch_floats<kSumsOfRow>(thread, base + kXSumsAt, of.x_sums + step * kSumsOfRow, of.pitch * kHalves);
    }
  }

  // Of tile `tile` of a warp's outputs the weights of activation group b, as mma wants them.
  QR_DEVICE void load_weights(int base, int b, int tile, uint32_t (&a)[4]) const {
    const int lane = dev::thread() % 32, output = warp_output(dev::thread()) % kPackedOutputs + 16 * tile;
    const int panel = base + warp_output(dev::thread()) / kPackedOutputs * Half::kBytes;
    if constexpr (W::kLowBits == 8) {
      const dev::Shared<Fragment> fragments(panel + b * (kPackedOutputs * 32) + output * 32 + lane * 16);
      const Fragment mine = fragments[0];
      for (int i = 0; i < 4; ++i) a[i] = mine.words[i];
    } else {
      const Unpacked<W, StageInShared, Half> from{{panel}};
      for (int i = 0; i < 2; ++i) {
        uint32_t two[2];
        from.quads(b, output + lane / 4 + 8 * i, lane % 4, two);
        a[i] = two[0];
        a[2 + i] = two[1];
      }
    }
  }

  // Of a lane's two outputs of a tile, and a scale group: what multiplies products, and what is added to them.
  struct Scales {
    float scale[2], min[2];
  };
  QR_DEVICE void load_scales(int base, int group, int tile, Scales& of_tile) const {
    const int output = warp_output(dev::thread()) % kPackedOutputs + 16 * tile + dev::thread() % 32 / 4;
    const Unpacked<W, StageInShared, Half> from{{base + warp_output(dev::thread()) / kPackedOutputs * Half::kBytes}};
    for (int i = 0; i < 2; ++i) {
      of_tile.scale[i] = from.scale(group, output + 8 * i);
      if constexpr (W::kMins) of_tile.min[i] = from.min(group, output + 8 * i);
    }
  }

  // Of a scale group whose products are d; x and x_sum are of a lane's two rows.
  QR_DEVICE void add_products(
      const int32_t (&d)[4], const Scales& w, const float* x, const float* x_sum, float* sums) const {
    for (int i = 0; i < 4; ++i) {
      const float dot = dev::sub(dev::as_float(static_cast<uint32_t>(d[i])), 12582912.0F);
      sums[i] = dev::fma(dot, dev::mul(w.scale[i / 2], x[i % 2]), sums[i]);
      if constexpr (W::kMins) sums[i] = dev::fma(w.min[i / 2], x_sum[i % 2], sums[i]);
    }
  }

  // Scale group h of activation group b, whose weights are a. Sums are [8 rows][tile][4]. Matrices of 16 bytes of 8
  // rows come by four: of 16 rows, or of 32 rows the half that the scale group is.
  QR_DEVICE void add_scale_group(int base, int b, int h, const uint32_t (&a)[kTiles][4], float (&sums)[kSums]) const {
    const int lane = dev::thread() % 32, first = warp_row(dev::thread()), group = b * kHalves + h;
    const int row = first + (kHalves == 1 ? lane / 16 * 8 + lane % 8 : lane), half = kHalves == 1 ? lane / 8 % 2 : h;
    const dev::Shared<int8_t> bytes(base + kXAt + row * kPitch + b * 32 + half * 16);
    const dev::Shared<FourFloats> x_scales(base + kXScalesAt + (b * kFloats + first) * 4 + lane % 4 * 16);
    const dev::Shared<FourFloats> x_sums(base + kXSumsAt + (group * kFloats + first) * 4 + lane % 4 * 16);
    Scales w[kTiles];
    for (int t = 0; t < kTiles; ++t) load_scales(base, group, t, w[t]);
    QR_UNROLL for (int r = 0; r < kWarpRows; r += 16 * kHalves) {
      uint32_t q[4];
      FourFloats x{}, x_sum{};
      dev::load_matrix(q, bytes, r * kPitch);
      QR_UNROLL for (int j = 0; j < 2 * kHalves; ++j) {
        const int of_four = r / 4 + j / 2 * 4;
        if (j % 2 == 0) x = x_scales[of_four];
        if constexpr (W::kMins) {
          if (j % 2 == 0) x_sum = x_sums[of_four];
        }
        QR_UNROLL for (int t = 0; t < kTiles; ++t) {
          int32_t d[4] = {0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000};
          if constexpr (kHalves == 1) {
            const uint32_t right[2] = {q[2 * j], q[2 * j + 1]};
            dev::mma_s8(d, a[t], right);
          } else {
            const uint32_t left[2] = {a[t][2 * h], a[t][2 * h + 1]}, right[1] = {q[j]};
            dev::mma_s8(d, left, right);
          }
          add_products(d, w[t], x.x + j % 2 * 2, x_sum.x + j % 2 * 2, sums + ((r / 8 + j) * kTiles + t) * 4);
        }
      }
    }
  }

  // Where a thread's results are, from its first row and output on.
  struct Places {
    int row, out;
    // Of sum i, from there.
    QR_DEVICE static constexpr int right(int i) { return i / (8 * kTiles) * 16 + i / (4 * kTiles) % 2 * 2 + i % 2; }
    QR_DEVICE static constexpr int down(int i) { return i / 4 % kTiles * 16 + i / 2 % 2 * 8; }
  };
  QR_DEVICE bool is_in(const Places& to, int i) const {
    return to.row + to.right(i) < of.n && to.out + to.down(i) < of.n_out;
  }

  // Adds what waits in y, and the bias.
  QR_DEVICE void end(const Places& to, const float* y, float (&sums)[kSums], float (&waiting)[kSums]) const {
    QR_UNROLL for (int i = 0; i < kSums; ++i) {
      waiting[i] = 0.0F;
      if (is_in(to, i)) waiting[i] = dev::load(y + to.right(i) * of.y.stride + to.down(i));
    }
    QR_UNROLL for (int i = 0; i < kSums; ++i) sums[i] = dev::add(waiting[i], sums[i]);
    if (of.bias == nullptr) return;
    float bias[kTiles * 2] = {};
    QR_UNROLL for (int t = 0; t < kTiles * 2; ++t) {
      if (to.out + 8 * t < of.n_out) bias[t] = dev::load(of.bias + to.out + 8 * t);
    }
    QR_UNROLL for (int i = 0; i < kSums; ++i) sums[i] = dev::add(sums[i], bias[to.down(i) / 8]);
  }

  // A segment has ended: its sums are joined with what waits for them, and wait or are the result.
  QR_DEVICE void close(int segment, float (&sums)[kSums], float (&one)[kSums]) const {
    const int thread = dev::fresh(dev::thread()), lane = thread % 32;
    if (segment % 2 == 0) {
      QR_UNROLL for (int i = 0; i < kSums; ++i) one[i] = sums[i];
      return;
    }
    const dev::Shared<float> two(kTwoAt + thread * 4);
    QR_UNROLL for (int i = 0; i < kSums; ++i) sums[i] = dev::add(one[i], sums[i]);
    if (segment % 4 == 1) {
      QR_UNROLL for (int i = 0; i < kSums; ++i) two[i * kThreads] = sums[i];
      return;
    }
    QR_UNROLL for (int i = 0; i < kSums; ++i) sums[i] = dev::add(two[i * kThreads], sums[i]);
    const Places to = {first_row() + warp_row(thread) + lane % 4 * 4,
                       dev::block_y() * kOutputs + warp_output(thread) + lane / 4};
    float* y = of.y.row(to.row) + to.out;
    if (segment == 7) end(to, y, sums, one);
    QR_UNROLL for (int i = 0; i < kSums; ++i) {
      if (is_in(to, i)) dev::store(y + to.right(i) * of.y.stride + to.down(i), sums[i]);
    }
  }

  QR_DEVICE void operator()() const {
    if (first_row() >= of.n) return;
    const int n_steps = (of.n_groups + kGroups - 1) / kGroups;
    for (int s = 0; s + 1 < kStages; ++s) {
      if (s < n_steps) fetch(s * kStageBytes, s);
      dev::copy_commit();
    }
    float sums[kSums], one[kSums] = {};
    int base = 0, next = (kStages - 1) * kStageBytes;  // the stage that is read, the one to be written
    int g = 0, b = 0, step = 0;                        // an activation group, in its step, and that
    for (int segment = 0; segment < 8; ++segment) {
      QR_UNROLL for (int i = 0; i < kSums; ++i) sums[i] = 0.0F;
      const int end = static_cast<int>(int64_t{of.n_groups} * (segment + 1) / 8);
      for (; g < end; ++g) {
        if (b == 0) {
          base = next + kStageBytes == kTwoAt ? 0 : next + kStageBytes;
          dev::copy_wait<kStages - 2>();
          dev::sync();  // before the stage that was read is written again
          if (step + kStages - 1 < n_steps) fetch(next, step + kStages - 1);
          dev::copy_commit();
          next = base;
          ++step;
        }
        uint32_t a[kTiles][4];
        QR_UNROLL for (int t = 0; t < kTiles; ++t) load_weights(base, b, t, a[t]);
        QR_UNROLL for (int h = 0; h < kHalves; ++h) add_scale_group(base, b, h, a, sums);
        b = (b + 1) & (kGroups - 1);
      }
      close(segment, sums, one);
    }
  }
};

// Of many rows, and of some.
template <class W>
using LinearMany = LinearInteger<W, 128>;
template <class W>
using LinearSome = LinearInteger<W, 32>;

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
