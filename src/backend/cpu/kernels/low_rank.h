// What adapters add to a product, y += B·(A·x): a lane is an output, and t = t + h[j] · b[j] goes in the order of j,
// each operation rounded on its own (docs/numerics.md, "Adapters"), whatever stands beside a row and however B is held.
// B lies in panels of 16 outputs, so that the few columns that a task has just made are one run of memory: as rows of
// B they were a line or two in each of `rank` places, which memory is slow to find. Measured: docs/numbers.md.
#pragma once
#include "backend/cpu/kernels/linear.h"
#include "backend/cpu/kernels/low_rank_tables.h"
#include "quant/float_format.h"

namespace quire {
namespace {

// BF16 that is multiplied as the f32 it stands for, with x as it is.
struct ExactBf16 : FloatFormat<uint16_t, 1> {
  static constexpr std::string_view kName = "bf16";

  static QR_INLINE void decode(const std::byte* block, float* out) { *out = bf16_to_f32(load_as<uint16_t>(block)); }
  template <class V>
  static QR_INLINE void load_two(const std::byte* panel, int64_t k, typename V::F* out) {
    const auto* from = reinterpret_cast<const Element*>(panel) + k * kPanelRows;
    out[0] = V::load_bf16(from);
    out[1] = V::load_bf16(from + kPanelRows);
  }
};

template <class V, HeldAs kHeld>
struct LowRankKernel {
  using F = typename V::F;
  static constexpr int64_t kVectorBytes = kPanelRows * held_bytes(kHeld);

  static QR_INLINE F load(const std::byte* from) {
    if constexpr (kHeld == HeldAs::f32) return V::load(reinterpret_cast<const float*>(from));
    if constexpr (kHeld == HeldAs::f16) return V::load_f16(reinterpret_cast<const uint16_t*>(from));
    if constexpr (kHeld == HeldAs::bf16) return V::load_bf16(reinterpret_cast<const uint16_t*>(from));
  }

  static const std::byte* panel_at(const LowRankTask& task, int64_t panel) {
    return task.b + panel * task.n_of_output * kVectorBytes;
  }

  // Onto the outputs of one panel of a row that the task has, which may be some of its lanes.
  static QR_INLINE void put(const LowRankTask& task, int64_t panel, int64_t row, F sum) {
    const int64_t first = panel * kPanelRows;
    const int skipped = task.begin > first ? static_cast<int>(task.begin - first) : 0;
    const int n = static_cast<int>(task.end - first < kPanelRows ? task.end - first : kPanelRows) - skipped;
    const auto lanes = [skipped, n](F v) __attribute__((always_inline)) {
      if (skipped == 0) return v;
      float all[2 * kPanelRows];  // whatever is behind is not asked for
      V::store(all, v);
      return V::load_n(all + skipped, n);
    };
    float* y = task.y + row * task.y_stride + first + skipped - task.begin;
    F old = V::load_n(y, n);
    if (task.n_of_output > task.rank) {
      const std::byte* factors = panel_at(task, panel) + task.rank * kVectorBytes;
      old = V::add(V::mul(old, lanes(load(factors))), lanes(load(factors + kVectorBytes)));
    }
    V::store_n(y, V::add(old, lanes(sum)), n);
  }

  // P panels times M rows: so many sums are under way.
  template <int P, int M>
  static void tile(const LowRankTask& task, int64_t panel, int64_t row) {
    F sums[P * M];
    for (int i = 0; i < P * M; ++i) sums[i] = V::zero();
    const std::byte* b = panel_at(task, panel);
    const int64_t panel_bytes = task.n_of_output * kVectorBytes;
    const float* h = task.h + row * task.h_stride;
    for (int64_t j = 0; j < task.rank; ++j) {
      F of[P];
      for (int p = 0; p < P; ++p) of[p] = load(b + p * panel_bytes + j * kVectorBytes);
      for (int m = 0; m < M; ++m) {
        const F share = V::set1(h[m * task.h_stride + j]);
        for (int p = 0; p < P; ++p) sums[p * M + m] = V::add(sums[p * M + m], V::mul(share, of[p]));
      }
    }
    for (int p = 0; p < P; ++p) {
      for (int m = 0; m < M; ++m) put(task, panel + p, row + m, sums[p * M + m]);
    }
  }

  template <int P>
  static void rows(const LowRankTask& task, int64_t panel) {
    int64_t row = 0;
    for (; row + 4 <= task.n; row += 4) tile<P, 4>(task, panel, row);
    for (; row + 2 <= task.n; row += 2) tile<P, 2>(task, panel, row);
    if (row < task.n) tile<P, 1>(task, panel, row);
  }

  static void add(const LowRankTask& task) {
    int64_t panel = task.begin / kPanelRows;
    const int64_t end = (task.end + kPanelRows - 1) / kPanelRows;
    for (; panel + 2 <= end; panel += 2) rows<2>(task, panel);
    if (panel < end) rows<1>(task, panel);
  }
};

template <class V>
constexpr LowRankKernels make_low_rank_kernels(std::string_view isa) {
  return {.isa = isa,
          .bf16 = make_linear_kernels<V, ExactBf16>(),
          .add = {&LowRankKernel<V, HeldAs::f32>::add, &LowRankKernel<V, HeldAs::f16>::add,
                  &LowRankKernel<V, HeldAs::bf16>::add}};
}

}  // namespace
}  // namespace quire
