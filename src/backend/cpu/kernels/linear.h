// y = x·Wᵀ over panels of 16 outputs: a lane is an output, so no dot product needs a horizontal sum and every row of x
// is summed over K in the same order whatever stands beside it (docs/numerics.md, "Linear").
//   panel, integer formats: quants of all blocks of 32 k, then scales of all blocks; float formats: [k][16] elements,
//   of those with scales [16] scales in front of each block. K is cut into segments (kernels/segments.h).
// The register tile is kPanels panels × kRows rows of x; both only change how much is in flight, never the sums.
//
// Instructions per block of 32 k in g++ 12's code. AVX-512: tiles of 2 panels × 4 rows, 64 are VPDPBUSD, 45 to 60
// only load or broadcast; AVX2: of 1 panel × 4 rows, 64 are maddubs. Share: theirs of multiplications
//   AVX-512:  all  bit logic  conversions  products, fmas  share     AVX2:  all  madd  products, fmas  share
//   Q8_0      192          0           10              16   0.80            370    64              16   0.44
//   Q4_0      196         24           10              16   0.80            264     8              16   0.73
//   IQ4_NL    212         40           10              16   0.80            433    64              16   0.44
//   Q5_0      228         54           10              16   0.80            346    16              16   0.67
//   Q4_K      203         24           16              28   0.70            275     8              28   0.64
//   Q5_K      239         54           16              28   0.70            354    16              28   0.59
//   Q6_K      286         52           24              36   0.64            456    32              36   0.48
//   Q3_K      289         58           24              36   0.64            427    16              36   0.55
//   Q2_K      315         40           36              56   0.53            405    16              56   0.47
// Starting at −zero · Σx makes the zero points free; a K format's d stays in a register over its super-block. Eight
// chains of eight VPDPBUSD fill the units only while blocks overlap: so of formats without super-blocks a block's sums
// are scaled among the products of the next (kWaits).
// Float formats, tiles of 2 panels × 12 rows on AVX-512: for two k of BF16 48 are fmas of 52 that the two ports of them
// take (4 shifts and masks), 26 load. With VDPBF16PS those two k are 24 of 24 and 14 load. What that measures to:
// docs/backend-cpu.md.
#pragma once
#include <type_traits>

#include "backend/cpu/kernels/flush.h"
#include "backend/cpu/kernels/linear_tiles.h"
#include "backend/cpu/kernels/segments.h"
#include "backend/cpu/kernels/tables.h"
#include "backend/cpu/kernels/unrolled.h"
#include "quant/f16.h"
#include "quant/weight_format.h"

namespace quire {
namespace {

template <class V, class W>
struct LinearKernel {
  using F = typename V::F;
  static constexpr int kRows = W::kInteger ? V::kTileRows : V::kFloatTileRows;      // of a register tile
  static constexpr int kPerFloat = W::kRounded ? V::kBf16PerFloat : 1;              // numbers of x in a float's place
  static constexpr int kDepth = W::kBlock > kPanelDepth ? W::kBlock : kPanelDepth;  // k that are packed together
  static constexpr int64_t kTwoBytes = 2 * W::kPanelBytes / kPanelDepth;            // of two k in a panel

  // Of float formats: where in a panel the two k lie of which this is the first.
  static QR_INLINE int64_t two_at(int64_t k) {
    if constexpr (W::kBlock == 1) return k * kPanelRows * W::kBytes;
    return k / 2 * kTwoBytes;
  }

  static int64_t n_blocks(int64_t n_in) { return (n_in + kPanelDepth - 1) / kPanelDepth; }
  static int64_t panel_bytes(int64_t n_in) {
    return (n_blocks(n_in) * W::kPanelBytes + scales_at(n_blocks(n_in)) + 63) / 64 * 64;
  }
  // Where in its panel's scales a block's super-block begins.
  static int64_t scales_at(int64_t block) {
    if constexpr (W::kInteger) return block / W::kSuper * W::kPanelScaleBytes;
    return 0;
  }

  static void pack(const std::byte* const* rows, int64_t n_in, std::byte* panel) {
    std::byte* scales = panel + n_blocks(n_in) * W::kPanelBytes;
    for (int64_t k = 0; k < n_in; k += kDepth) {
      const std::byte* at[kPanelRows];
      for (int r = 0; r < kPanelRows; ++r) {
        at[r] = rows[r] == nullptr ? nullptr : rows[r] + k / W::kBlock * W::kBytes;
      }
      const int64_t block = k / kPanelDepth;
      if constexpr (W::kInteger) {
        W::pack(at, panel + block * W::kPanelBytes, scales + scales_at(block));
      } else {
        const int64_t left = n_in - k;
        W::pack(at, left < kDepth ? static_cast<int>(left) : kDepth, panel + block * W::kPanelBytes);
      }
    }
  }

  static void unpack_row(const std::byte* panel, int row, int64_t n_in, float* out) {
    const std::byte* scales = panel + n_blocks(n_in) * W::kPanelBytes;
    std::byte stored[kDepth / W::kBlock * W::kBytes];
    for (int64_t k = 0; k < n_in; k += kDepth) {
      const int64_t block = k / kPanelDepth;
      if constexpr (W::kInteger) {
        W::unpack(panel + block * W::kPanelBytes, scales + scales_at(block), row, stored);
        W::decode(stored, out + k);
      } else {
        const int depth = n_in - k < kDepth ? static_cast<int>(n_in - k) : kDepth;
        W::unpack(panel + block * W::kPanelBytes, row, depth, stored);
        for (int i = 0; i < depth; i += W::kBlock) W::decode(stored + i / W::kBlock * W::kBytes, out + k + i);
      }
    }
  }

  // One segment of a tile: blocks [begin, end) of P panels × M rows.
  struct Segment {
    const std::byte* panel;
    int64_t row, begin, end;
  };

  // Pointers to what some rows have at one place of K. Row 3 · i is at at[i], and the two behind it one and two strides
  // on, so that no row needs a register of its own.
  template <class T, int M>
  struct RowPointers {
    static constexpr int kBases = (M + 2) / 3;
    const T* at[kBases];
    int64_t stride;

    QR_INLINE RowPointers(const T* first, int64_t row_stride) : stride(row_stride) {
      for (int i = 0; i < kBases; ++i) at[i] = first + 3 * i * stride;
    }
    QR_INLINE const T& operator[](int m) const { return at[m / 3][m % 3 * stride]; }
    QR_INLINE void advance(int64_t n) {
      for (int i = 0; i < kBases; ++i) {
        at[i] += n;
        asm volatile("" : "+r"(at[i]));  // or the compiler makes M pointers of them
      }
    }
  };

  // What a tile of P panels × M rows reads, at the block that is next.
  template <int M>
  struct Sources {
    const std::byte* quants;
    const std::byte* scales;
    int64_t panel_stride;
    RowPointers<ActivationGroup, M> x;
  };

  // A scale group of quants' products with each row, before they are scaled, and what scales them.
  template <int P, int M>
  struct Products {
    F dots[P * M], scales[P], mins[P];
  };

  // The sum of a row's activations over a scale group: the only one of its block, or number kHalf.
  template <int kHalf>
  static QR_INLINE int32_t sum_of(const ActivationGroup& x) {
    if constexpr (W::kScaleGroup == kPanelDepth) return x.sum;
    return kHalf == 0 ? x.first_sum : x.sum - x.first_sum;
  }

  // Adds number i, of panel i / M and row i % M, whose activation group is x.
  template <int P, int M, int kHalf>
  static QR_INLINE void add_scaled(const Products<P, M>& of, const ActivationGroup& x, int i, F* acc) {
    const F s = V::mul(of.scales[i / M], V::set1(x.scale));
    acc[i] = V::fma(of.dots[i], s, acc[i]);
    if constexpr (W::kMins) {
      const float scaled_sum =
          W::kScaleGroup == kPanelDepth ? x.scaled_sum : x.scale * static_cast<float>(sum_of<kHalf>(x));
      acc[i] = V::fma(of.mins[i / M], V::set1(scaled_sum), acc[i]);
    }
  }

  // Where registers suffice a block's products wait, and are scaled while the next block is multiplied: at once they
  // would stand in the unit's scheduler until the chains of products end, and keep the next block's out of it.
  template <int P, int M>
  static constexpr bool kWaits = (V::kSideBySide > 1) && P * M == V::kTilePanels * V::kTileRows &&
                                 W::kScaleGroup == kPanelDepth && W::kSuper == 1 && !W::kMins;

  // A scale group of the block (the only one, or its first or last 16 numbers), number g of its super-block, onto the
  // sums, or into `waiting`. kScales: what waits there, of the block before, onto the sums meanwhile.
  template <int P, int M, int kHalf, bool kScales, class Scales>
  static QR_INLINE void add_scale_group(
      const Sources<M>& from, int g, const Scales* scales, Products<P, M>& waiting, F* acc) {
    using Dot = typename V::template Dot<W::kZero, W::kMax>;
    constexpr int kQuads = W::kScaleGroup / 4;
    Dot dot[P * M];
    for (int m = 0; m < M; ++m) {
      for (int p = 0; p < P; ++p) dot[p * M + m].start(sum_of<kHalf>(from.x[m]));
    }
    unrolled<0, kQuads>([&](auto j) __attribute__((always_inline)) {
      constexpr int kQuad = kHalf * kQuads + j.kValue;
      typename V::U w[P];
      for (int p = 0; p < P; ++p) w[p] = W::template load_quad<V, kQuad>(from.quants + p * from.panel_stride);
      for (int m = 0; m < M; ++m) {
        int32_t quad;
        __builtin_memcpy(&quad, from.x[m].q + 4 * kQuad, 4);
        for (int p = 0; p < P; ++p) dot[p * M + m].template add<j.kValue, kQuads>(w[p], quad);
      }
      if constexpr (kScales) {
        for (int i = P * M * j.kValue / kQuads; i < P * M * (j.kValue + 1) / kQuads; ++i) {
          add_scaled<P, M, kHalf>(waiting, (&from.x[i % M])[-1], i, acc);
        }
      }
    });
    for (int i = 0; i < P * M; ++i) waiting.dots[i] = V::to_float(dot[i].total(sum_of<kHalf>(from.x[i % M])));
    for (int p = 0; p < P; ++p) {
      waiting.scales[p] = scales[p].scale(g);
      if constexpr (W::kMins) waiting.mins[p] = scales[p].min(g);
    }
    if constexpr (!kWaits<P, M>) {
      for (int i = 0; i < P * M; ++i) add_scaled<P, M, kHalf>(waiting, from.x[i % M], i, acc);
    }
  }

  // Asks for what will be read soon of each of P panels: the machine's own prefetcher stops at every 4 KiB and starts
  // anew at every panel's scales. Nothing is asked for where a vocabulary says kPrefetches = false.
  template <int P>
  static QR_INLINE void prefetch(const std::byte* from, int64_t panel_stride, int bytes) {
    if constexpr (!V::kPrefetches) return;
    for (int p = 0; p < P; ++p) {
      for (int i = 0; i < bytes; i += 64) __builtin_prefetch(from + p * panel_stride + i);
    }
  }

  // Weights that a tile asks for while it multiplies others: as many in each of its steps.
  struct Later {
    const std::byte* next = nullptr;
    const std::byte* until = nullptr;  // in this step
    int64_t step = 0;                  // bytes

    QR_INLINE void ask() {
      until += step;
      for (; next < until; next += 64) __builtin_prefetch(next);
    }
  };

  // Panels that are read next, which all tiles of the rows from the first on ask for together: each for its rows'
  // share; or nothing.
  struct Behind {
    const std::byte* begin = nullptr;
    int64_t row_bytes = 0;

    // Of a tile of M rows, in each of its steps.
    template <int M>
    QR_INLINE int64_t step(int64_t n_in) const {
      const int64_t n_steps = W::kInteger ? n_blocks(n_in) : (n_in + 1) / 2;
      return row_bytes == 0 ? 0 : (row_bytes * M + n_steps - 1) / n_steps;
    }
    QR_INLINE Later later(int64_t row, int64_t step) const {
      const std::byte* at = begin + row_bytes * row;
      return {at, at, step};
    }
  };

  // A tile's panels and what is read behind them.
  struct Panels {
    const std::byte* first;
    const std::byte* next;
  };

  template <int N>
  static QR_INLINE void clear(F* acc) {
    unrolled<0, N>([&](auto i) __attribute__((always_inline)) { acc[i.kValue] = V::zero(); });
  }
  // A loop would become a copy in memory, which waits for all of the sums.
  template <int N>
  static QR_INLINE void copy(F* out, const F* acc) {
    unrolled<0, N>([&](auto i) __attribute__((always_inline)) { out[i.kValue] = acc[i.kValue]; });
  }

  // Of the super-block that is next.
  template <int P, int M, class Scales>
  static QR_INLINE void load_scales(const Sources<M>& from, Scales (&scales)[P]) {
    for (int p = 0; p < P; ++p) scales[p] = Scales(from.scales + p * from.panel_stride);
  }

  // All segments of a tile, into parts[segment][panel][row]. kAhead: asks for its own weights before it reads them, and
  // at the end for the next ones.
  template <int P, int M, bool kAhead>
  static QR_INLINE void integer_segments(
      const LinearTask& task, const Panels& panels, int64_t row, Later& later, F* parts) {
    using Scales = typename W::template Scales<V>;
    constexpr int kHalves = kPanelDepth / W::kScaleGroup;
    const int64_t blocks = task.xq.n_activation_groups;
    const int64_t quant_bytes = blocks * W::kPanelBytes;  // of a panel; behind them those of the next tile's
    Sources<M> from{.quants = panels.first,
                    .scales = panels.first + quant_bytes,
                    .panel_stride = task.panel_stride,
                    .x = {task.xq.activations + row * blocks, blocks}};
    const std::byte* soon = panels.first + task.prefetch_bytes;
    const std::byte* soon_end = panels.first + quant_bytes;
    int64_t b = 0;
    for (int s = 0; s < kSegments; ++s) {
      F acc[P * M];
      clear<P * M>(acc);
      Products<P, M> waiting;
      const int64_t begin = b;
      const int64_t end = segment_begin(blocks, s + 1);
      // Block b; `waits` is false for the first of the segment, behind which nothing waits yet.
      const auto add_block = [&](const Scales* scales, auto waits) __attribute__((always_inline)) {
        if constexpr (kAhead) {
          if (soon >= soon_end) {
            soon += panels.next - soon_end;
            soon_end = panels.next + quant_bytes;
          }
          prefetch<P>(soon, from.panel_stride, W::kPanelBytes);
          soon += W::kPanelBytes;
        }
        later.ask();
        const int g = static_cast<int>(b % W::kSuper) * kHalves;  // in its super-block
        add_scale_group<P, M, 0, waits.value>(from, g, scales, waiting, acc);
        if constexpr (kHalves == 2) add_scale_group<P, M, 1, waits.value>(from, g + 1, scales, waiting, acc);
        from.quants += W::kPanelBytes;
        asm volatile("" : "+r"(from.quants));
        from.x.advance(1);
      };
      // The blocks of a super-block that lie in the segment.
      const auto add_super = [&](auto waits) __attribute__((always_inline)) {
        Scales scales[P];
        load_scales(from, scales);
        if constexpr (kAhead) prefetch<P>(from.scales + P * from.panel_stride, from.panel_stride, W::kPanelScaleBytes);
        int64_t super_end = b + 1, stop = super_end;
        if constexpr (W::kSuper > 1) {
          super_end = (b / W::kSuper + 1) * W::kSuper;
          stop = super_end < end ? super_end : end;
        }
        if (stop == super_end) from.scales += W::kPanelScaleBytes;
        for (; b < stop; ++b) add_block(scales, waits);
      };
      if constexpr (kWaits<P, M>) {
        if (b < end) add_super(std::false_type());
      }
      while (b < end) add_super(std::bool_constant<kWaits<P, M>>());
      if constexpr (kWaits<P, M>) {
        for (int i = 0; begin < end && i < P * M; ++i) add_scaled<P, M, 0>(waiting, (&from.x[i % M])[-1], i, acc);
      }
      copy<P * M>(parts + s * P * M, acc);
    }
  }

  template <int P, int M>
  static QR_INLINE void float_segment(const LinearTask& task, const Segment& at, Later& later, F* out) {
    F acc[P * M];
    unrolled<0, P * M>([&](auto i) __attribute__((always_inline)) { acc[i.kValue] = V::zero(); });
    const int64_t begin = at.begin * kPanelDepth;
    const int64_t end = at.end * kPanelDepth < task.n_in ? at.end * kPanelDepth : task.n_in;
    RowPointers<float, M> x(task.x + at.row * task.x_stride + begin / kPerFloat, task.x_stride);
    for (int64_t k = begin; k < end; k += 2) {
      if constexpr (M <= 4) {
        prefetch<P>(at.panel + two_at(k) + task.prefetch_bytes, task.panel_stride, kTwoBytes);
      }
      later.ask();
      // Number j of each row's two times `product`'s weights.
      const auto add = [&](int j, auto product) __attribute__((always_inline)) {
        for (int m = 0; m < M; ++m) {
          const F v = V::set1((&x[m])[j]);
          for (int p = 0; p < P; ++p) acc[p * M + m] = product(p, v, acc[p * M + m]);
        }
      };
      if constexpr (kPerFloat == 2) {
        typename V::U w[P];
        for (int p = 0; p < P; ++p) w[p] = V::load_bytes(at.panel + p * task.panel_stride + two_at(k));
        add(0, [&](int p, F v, F sum) __attribute__((always_inline)) { return V::dot_bf16(w[p], v, sum); });
      } else {
        F w[P][2];
        for (int p = 0; p < P; ++p) W::template load_two<V>(at.panel + p * task.panel_stride, k, w[p]);
        // As VDPBF16PS goes: the odd one first, which behind an odd end is zero in both.
        const auto fma = [&](int j) __attribute__((always_inline)) {
          add(j, [&](int p, F v, F sum) __attribute__((always_inline)) { return V::fma(w[p][j], v, sum); });
        };
        if constexpr (W::kRounded) fma(1);
        fma(0);
        if (!W::kRounded && k + 1 < end) fma(1);
      }
      x.advance(2 / kPerFloat);
    }
    // A loop would become a copy in memory, which waits for all of the sums.
    unrolled<0, P * M>([&](auto i) __attribute__((always_inline)) { out[i.kValue] = acc[i.kValue]; });
  }

  template <int P, int M, bool kAhead>
  static void tile(const LinearTask& task, int64_t panel_index, int64_t row, Later later) {
    F parts[kSegments * P * M];
    const std::byte* panel = task.panels + panel_index * task.panel_stride;
    const std::byte* next = panel + P * task.panel_stride;
    if (panel_index + P >= task.end && task.after != nullptr) next = task.after;
    float* y = task.y + row * task.y_stride + panel_index * kPanelRows;
    // A store that misses the cache would hold up all those behind it: the sums of the next tile.
    for (int m = 0; m < M; ++m) __builtin_prefetch(y + m * task.y_stride, 1);
    if constexpr (W::kInteger) {
      integer_segments<P, M, kAhead>(task, {panel, next}, row, later, parts);
    } else {
      const int64_t blocks = n_blocks(task.n_in);
      for (int s = 0; s < kSegments; ++s) {
        const Segment at{panel, row, segment_begin(blocks, s), segment_begin(blocks, s + 1)};
        float_segment<P, M>(task, at, later, parts + s * P * M);
      }
    }
    for (int p = 0; p < P; ++p) {
      const int64_t o = (panel_index + p) * kPanelRows;
      const int n = task.n_out - o < kPanelRows ? static_cast<int>(task.n_out - o) : kPanelRows;
      for (int m = 0; m < M; ++m) {
        F sum = fold_segments<V>(parts + p * M + m, P * M);
        if (task.bias != nullptr) sum = V::add(sum, V::load_n(task.bias + o, n));
        V::store_n(y + m * task.y_stride + p * kPanelRows, sum, n);
      }
    }
  }

  // What is multiplied while it stays in the second-level cache.
  struct Block {
    int64_t panel, panel_end, row, row_end;
  };

  // P panels times rows [row, end): tiles of M, then of the next smaller power of two, down to kLeast. Returns the
  // first row that is left. Meanwhile what is behind these panels is asked for, by all tiles alike: memory would stand
  // still while all but the first multiply.
  template <int P, int M, int kLeast>
  static int64_t rows(const LinearTask& task, int64_t panel, int64_t row, int64_t end, const Behind& behind) {
    if (row + M <= end) {
      const int64_t step = behind.template step<M>(task.n_in);
      tile<P, M, true>(task, panel, row, behind.later(row, step));
      // Float formats' tiles all ask: they are the same function.
      for (row += M; row + M <= end; row += M) tile<P, M, !W::kInteger>(task, panel, row, behind.later(row, step));
    }
    if constexpr (M > kLeast) {
      constexpr int kNext = M == 12 ? 8 : M / 2;
      row = rows<P, kNext, kLeast>(task, panel, row, end, behind);
    }
    return row;
  }

  static void run(const LinearTask& task) {
    if constexpr (W::kRounded) {
      const FlushSubnormals flush;
      return run_all(task);
    }
    run_all(task);
  }

  // Panels are taken in runs that stay in the second-level cache while all rows pass.
  static void run_all(const LinearTask& task) {
    constexpr int64_t kRunBytes = 128 << 10;
    const int64_t fit = kRunBytes / task.panel_stride / 2 * 2;
    const int64_t step = fit > 2 ? fit : 2;
    for (int64_t panel = task.begin; panel < task.end; panel += step) {
      run_panels(task, panel, task.end - panel > step ? panel + step : task.end);
    }
  }

  static void run_panels(const LinearTask& task, int64_t begin, int64_t end) {
    if constexpr (is_tiled<V, W>()) {
      using Tiled = TiledLinear<V, W>;
      const typename Tiled::Whole whole = Tiled::whole_tiles(task);
      if (whole.begin < whole.end) {
        Tiled::run(task.rows(whole.begin, whole.end), begin, end);
        run_rows(task.rows(0, whole.begin), begin, end);
        return run_rows(task.rows(whole.end, task.n), begin, end);
      }
    }
    run_rows(task, begin, end);
  }

  // Rows are taken in blocks that stay in the second-level cache while the panels pass.
  static void run_rows(const LinearTask& task, int64_t begin, int64_t end) {
    constexpr int64_t kBlockBytes = 192 << 10;
    const int64_t row_bytes = W::kInteger ? task.xq.n_activation_groups * int64_t{sizeof(ActivationGroup)}
                                          : task.n_in * int64_t{sizeof(float)} / kPerFloat;
    const int64_t fit = kBlockBytes / row_bytes / kRows * kRows;
    const int64_t step = fit > kRows ? fit : kRows;
    for (int64_t row = 0; row < task.n; row += step) {
      run_block(task, {begin, end, row, task.n - row < step ? task.n : row + step});
    }
  }

  // What P panels ask for: the next ones of their run while its first rows pass; the last ones, all the while, for
  // those of the run behind. Few rows are one tile, which asks for weights as it reads them.
  template <int P>
  static Behind behind(const LinearTask& task, const Block& at, int64_t panel) {
    constexpr int64_t kFewRows = 4;
    const bool is_last = panel + P >= at.panel_end;
    if (task.n <= kFewRows || (!is_last && at.row > 0)) return {};
    int64_t left = task.end - (panel + P);
    const std::byte* begin = task.panels + (panel + P) * task.panel_stride;
    if (left <= 0 && task.after != nullptr) {
      left = P;
      begin = task.after;
    }
    if (left <= 0) return {};
    const int64_t bytes = (left < P ? left : P) * task.panel_stride;
    const int64_t n_rows = is_last ? task.n : at.row_end;
    return {begin, (bytes + n_rows - 1) / n_rows};
  }

  static void run_block(const LinearTask& task, const Block& at) {
    constexpr int kFew = V::kFewPanels > V::kTilePanels ? 2 : kRows;
    constexpr int kTile = V::kTilePanels;
    int64_t panel = at.panel;
    for (; panel + V::kFewPanels <= at.panel_end; panel += V::kFewPanels) {
      if constexpr (kFew < kRows) {
        int64_t row = at.row;
        for (int p = 0; p < V::kFewPanels; ++p) {
          row = rows<kTile, kRows, 2 * kFew>(task, panel + p, at.row, at.row_end, behind<kTile>(task, at, panel + p));
        }
        rows<V::kFewPanels, kFew, 1>(task, panel, row, at.row_end, {});
      } else {
        rows<kTile, kRows, 1>(task, panel, at.row, at.row_end, behind<kTile>(task, at, panel));
      }
    }
    for (; panel < at.panel_end; ++panel) {
      rows<1, kRows, 1>(task, panel, at.row, at.row_end, behind<1>(task, at, panel));
    }
  }
};

template <class V, class W>
constexpr LinearKernels make_linear_kernels() {
  using K = LinearKernel<V, W>;
  int64_t most_tiled = 0;
  if constexpr (is_tiled<V, W>()) most_tiled = TiledLinear<V, W>::kMostIn;
  return {W::kName, most_tiled, &K::panel_bytes, &K::pack, &K::unpack_row, &K::run};
}

}  // namespace
}  // namespace quire
