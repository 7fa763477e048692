// Integer products of whole tiles of 16 rows where a vocabulary has them (V::Tiles): a panel's weights are unpacked to
// int8 and multiplied with 16 rows of x at once. What a scale group's sums go through then is what kernels/linear.h
// does with them, in the same order, so the bits are the same.
#pragma once
#include "backend/cpu/kernels/segments.h"
#include "backend/cpu/kernels/tables.h"
#include "backend/cpu/kernels/unrolled.h"
#include "quant/weight_format.h"

namespace quire {
namespace {

template <class V>
inline constexpr bool kHasTiles = requires { typename V::template Tiles<kPanelDepth, false>; };

// Formats whose scale groups of 16 have mins need more sums of x than a tile holds.
template <class V, class W>
constexpr bool is_tiled() {
  if constexpr (W::kInteger) return kHasTiles<V> && (W::kScaleGroup == kPanelDepth || !W::kMins);
  return false;
}

template <class V, class W>
struct TiledLinear {
  using F = typename V::F;
  using Tiles = typename V::template Tiles<W::kScaleGroup, W::kMins>;

  static constexpr int kTileRows = QuantTile::kRows;
  static constexpr int kTileFloats = kTileRows * kPanelRows;
  static constexpr int kHalves = kPanelDepth / W::kScaleGroup;
  static constexpr int kInFlight = Tiles::kInFlight;
  static_assert(kInFlight <= QuantTile::kBehind);
  static constexpr int kLine = 64;
  // That are multiplied with each other while they stay in the first-level cache.
  static constexpr int kMaxPanels = 2, kMaxTiles = 2;

  // Scale groups of a segment, counted from a chunk's first one; none where a segment is empty.
  struct Round {
    int16_t first;
    int8_t n, segment;
    bool begins, ends;  // the segment
  };
  // Rounds [begin, end), which a panel and a tile of rows go through before the next: at most kMostOfPass of these.
  struct Pass {
    int16_t begin, end;
  };
  static constexpr int kMostOfPass = 8 * kHalves;

  // Whole segments, from `segment` on to `end_segment`, of all that panels have: as many as fit.
  struct Chunk {
    static constexpr int kMaxScaleGroups = 512 * kHalves;
    static constexpr int kMaxRounds = kMaxScaleGroups / kMostOfPass + kSegments;
    int64_t first = 0;  // scale group
    int n = 0, n_rounds = 0, n_passes = 0;
    int segment = 0, end_segment = 0;
    Round rounds[kMaxRounds];
    Pass passes[kMaxRounds];

    Chunk(int64_t n_blocks, int begin_segment) : segment(begin_segment), end_segment(begin_segment) {
      first = segment_begin(n_blocks, segment) * kHalves;
      int in_pass = 0;  // scale groups of the last one
      for (; end_segment < kSegments; ++end_segment) {
        const int64_t end = segment_begin(n_blocks, end_segment + 1) * kHalves - first;
        if (end > kMaxScaleGroups) break;
        bool begins = true;
        do {
          const int64_t left = end - n;
          const auto some = static_cast<int8_t>(left < kMostOfPass ? left : kMostOfPass);
          if (n_passes == 0 || in_pass + some > kMostOfPass) {
            passes[n_passes++].begin = static_cast<int16_t>(n_rounds);
            in_pass = 0;
          }
          in_pass += some;
          rounds[n_rounds++] = {.first = static_cast<int16_t>(n),
                                .n = some,
                                .segment = static_cast<int8_t>(end_segment),
                                .begins = begins,
                                .ends = n + some == end};
          passes[n_passes - 1].end = static_cast<int16_t>(n_rounds);
          n += some;
          begins = false;
        } while (n < end);
      }
    }
  };

  // A panel's weights of a chunk.
  struct Unpacked {
    // As many scale groups more may be read as products are in flight.
    alignas(64) std::byte w[(Chunk::kMaxScaleGroups + kInFlight) * W::kScaleGroup * kPanelRows];
    alignas(64) float scale[Chunk::kMaxScaleGroups * kPanelRows];
    alignas(64) float min[W::kMins ? Chunk::kMaxScaleGroups * kPanelRows : 1];

    void unpack(const Chunk& chunk, const std::byte* panel, int64_t n_blocks) {
      const std::byte* scales = panel + n_blocks * W::kPanelBytes;
      for (int g = 0; g < chunk.n; g += kHalves) {
        const int64_t block = (chunk.first + g) / kHalves;
        std::byte* to = w + g * W::kScaleGroup * kPanelRows;
        const std::byte* quants = panel + block * W::kPanelBytes;
        unrolled<0, kPanelDepth / 4>([&](auto j) __attribute__((always_inline)) {
          V::store_bytes(to + j.kValue * kLine,
                         V::template minus<W::kZero>(W::template load_quad<V, j.kValue>(quants)));
        });
        const typename W::template Scales<V> of(scales + block / W::kSuper * W::kPanelScaleBytes);
        for (int h = 0; h < kHalves; ++h) {
          const int in_super = static_cast<int>(block % W::kSuper) * kHalves + h;
          V::store(scale + (g + h) * kPanelRows, of.scale(in_super));
          if constexpr (W::kMins) V::store(min + (g + h) * kPanelRows, of.min(in_super));
        }
      }
    }
  };

  // Some panels times some tiles of rows, and the sums of each of them: of a segment that is unfinished, and of those
  // that wait for partners.
  struct Block {
    const LinearTask* task;
    int64_t panel;
    int n_panels;
    const QuantTile* x;  // of the first tile, at its first activations
    int64_t row;
    int n_tiles;
    const Unpacked* w;
    float* sums;  // [level][panel][tile]; level 0: unfinished
    // What is read after these panels: so many bytes are asked for with each pass of a panel and a tile.
    const std::byte* next;
    int64_t next_step;

    float* at(int level, int p, int t) const { return sums + ((level * kMaxPanels + p) * kMaxTiles + t) * kTileFloats; }
  };

  static QR_INLINE void add_scale_group(
      const float* w_scale, const float* w_min, const QuantTile& x, const float* results, F* acc) {
    const F ws = V::load(w_scale);
    unrolled<0, kTileRows>([&](auto r) __attribute__((always_inline)) {
      const F s = V::mul(ws, V::set1(x.scale[r.kValue]));
      acc[r.kValue] = V::fma(Tiles::sums(results + r.kValue * kPanelRows), s, acc[r.kValue]);
      if constexpr (W::kMins) {
        acc[r.kValue] = V::fma(V::load(w_min), V::set1(x.scaled_sum[r.kValue]), acc[r.kValue]);
      }
    });
  }

  // A segment has its sums: joined with their partners they wait for others, or are the result.
  static QR_INLINE void finish(const Block& block, int p, int t, int segment, F* acc) {
    int level = waiting_before(segment);
    for (int s = segment; (s & 1) != 0; s >>= 1, --level) {
      const float* partner = block.at(level, p, t);
      unrolled<0, kTileRows>([&](auto r) __attribute__((always_inline)) {
        acc[r.kValue] = V::add(V::load(partner + r.kValue * kPanelRows), acc[r.kValue]);
      });
    }
    const LinearTask& task = *block.task;
    const int64_t o = (block.panel + p) * kPanelRows;
    float* y = task.y + (block.row + t * kTileRows) * task.y_stride + o;
    if (segment + 1 < kSegments) {
      keep(block.at(level + 1, p, t), acc);
      // Lines that miss the cache, of as many pages: asked for while the last segment is multiplied.
      for (int r = 0; segment + 2 == kSegments && r < kTileRows; ++r) __builtin_prefetch(y + r * task.y_stride, 1);
      return;
    }
    const int n = task.n_out - o < kPanelRows ? static_cast<int>(task.n_out - o) : kPanelRows;
    unrolled<0, kTileRows>([&](auto r) __attribute__((always_inline)) {
      F& sum = acc[r.kValue];
      if (task.bias != nullptr) sum = V::add(sum, V::load_n(task.bias + o, n));
      V::store_n(y + r.kValue * task.y_stride, sum, n);
    });
  }

  static QR_INLINE void fetch(const float* from, F* acc) {
    unrolled<0, kTileRows>(
        [&](auto r) __attribute__((always_inline)) { acc[r.kValue] = V::load(from + r.kValue * kPanelRows); });
  }
  static QR_INLINE void keep(float* to, const F* acc) {
    unrolled<0, kTileRows>([&](auto r)
                               __attribute__((always_inline)) { V::store(to + r.kValue * kPanelRows, acc[r.kValue]); });
  }

  static QR_INLINE void exchange(float*& a, float*& b) {
    float* was = a;
    a = b;
    b = was;
  }
  static QR_INLINE void clear(F* acc) {
    unrolled<0, kTileRows>([&](auto r) __attribute__((always_inline)) { acc[r.kValue] = V::zero(); });
  }

  template <int kNumber>
  static QR_INLINE void begin(const int8_t* x, const std::byte* w) {
    Tiles::template multiply<kNumber, kNumber / kHalves* int{sizeof(QuantTile)} + kNumber % kHalves * W::kScaleGroup,
                             kNumber * W::kScaleGroup * kPanelRows>(x, kPanelDepth, w);
  }

  // Products of kInFlight scale groups.
  static QR_INLINE void begin_some(const int8_t* x, const std::byte* w) {
    unrolled<0, kInFlight>([&](auto i) __attribute__((always_inline)) { begin<i.kValue>(x, w); });
  }
  // What has begun before is stored, one by one, and others begin.
  static QR_INLINE void store_and_begin_some(float* results, const int8_t* x, const std::byte* w) {
    unrolled<0, kInFlight>([&](auto i) __attribute__((always_inline)) {
      Tiles::template store<i.kValue>(results);
      begin<i.kValue>(x, w);
    });
  }

  // What begins next, in the order in which multiply() adds up; after the last one it begins once more, for nothing.
  // Beyond its scale groups a round multiplies others, of the next tile where x has no more; not used.
  struct Ahead {
    const Block& block;
    const Chunk& chunk;
    const QuantTile* first_x;  // of the block's first tile, at the chunk's beginning
    int64_t x_stride;          // from tile to tile
    int pass = 0, round = 0, panel = 0, tile = 0, left = 0;
    const int8_t* x = nullptr;
    const std::byte* w = nullptr;

    QR_INLINE void aim() {
      const Round& next_round = chunk.rounds[round];
      left = static_cast<int>(next_round.n);
      x = first_x[tile * x_stride + next_round.first / kHalves].q[0];
      w = block.w[panel].w + next_round.first * W::kScaleGroup * kPanelRows;
    }
    // To the first round of the next tile, of the next panel behind the last tile, of the next pass behind all.
    QR_INLINE void take_next_tile() {
      if (++tile == block.n_tiles) {
        tile = 0;
        if (++panel == block.n_panels) {
          panel = 0;
          if (pass + 1 < chunk.n_passes) ++pass;
        }
      }
      round = chunk.passes[pass].begin;
    }
    QR_INLINE void advance() {
      left -= kInFlight;
      if (left > 0) {
        x += kInFlight / kHalves * sizeof(QuantTile);
        w += kInFlight * W::kScaleGroup * kPanelRows;
        return;
      }
      if (++round == chunk.passes[pass].end) take_next_tile();
      aim();
    }
  };

  // Products on their way: those of kInFlight scale groups that are stored, and where those that follow go.
  struct Results {
    float* ready;
    float* next;
  };

  // A panel and a tile of a block.
  struct At {
    int panel, tile;
  };

  // Adds up a round of a panel and a tile. While the products of kInFlight scale groups are added, those of the next
  // are stored and those of the ones after begin: an addition that waited for a store would hold up all behind it.
  static QR_INLINE void add_round(const Round& now, const At& at, Ahead& ahead, Results& results, F* acc) {
    const QuantTile* x = ahead.first_x + at.tile * ahead.x_stride + now.first / kHalves;
    const float* ws = ahead.block.w[at.panel].scale + now.first * kPanelRows;
    const float* wm = ahead.block.w[at.panel].min + (W::kMins ? now.first * kPanelRows : 0);
    int left = static_cast<int>(now.n);
    do {
      ahead.advance();
      unrolled<0, kInFlight>([&](auto j) __attribute__((always_inline)) {
        Tiles::template store<j.kValue>(results.next);
        begin<j.kValue>(ahead.x, ahead.w);
        if (j.kValue < left) {
          add_scale_group(ws + j.kValue * kPanelRows, wm + (W::kMins ? j.kValue * kPanelRows : 0),
                          x[j.kValue / kHalves], results.ready + j.kValue * Tiles::kFloats, acc);
        }
      });
      x += kInFlight / kHalves;
      ws += kInFlight * kPanelRows;
      if constexpr (W::kMins) wm += kInFlight * kPanelRows;
      exchange(results.ready, results.next);
      left -= kInFlight;
    } while (left > 0);
  }

  // Adds up a pass of a panel and a tile: sums are in registers, and wait in memory where a segment goes on behind it.
  static QR_INLINE void add_pass(const Pass& pass, const At& at, Ahead& ahead, Results& results) {
    const Block& block = ahead.block;
    const Round* now = ahead.chunk.rounds + pass.begin;
    const Round* end_round = ahead.chunk.rounds + pass.end;
    float* unfinished = block.at(0, at.panel, at.tile);
    F acc[kTileRows];
    if (!now->begins) fetch(unfinished, acc);
    for (; now < end_round; ++now) {
      if (now->begins) clear(acc);
      add_round(*now, at, ahead, results, acc);
      if (now->ends) finish(block, at.panel, at.tile, now->segment, acc);
    }
    if (!now[-1].ends) keep(unfinished, acc);
  }

  // Pass after pass, each with all panels and tiles, whose data mostly stay in the first-level cache meanwhile.
  static void multiply(const Block& block, const Chunk& chunk) {
    alignas(64) float room[2 * kInFlight * Tiles::kFloats];
    Results results{.ready = room, .next = room + kInFlight * Tiles::kFloats};
    Ahead ahead{.block = block,
                .chunk = chunk,
                .first_x = block.x + chunk.first / kHalves,
                .x_stride = block.task->xq.tile_stride};
    ahead.aim();
    begin_some(ahead.x, ahead.w);
    ahead.advance();
    store_and_begin_some(results.ready, ahead.x, ahead.w);
    const std::byte* asked = block.next;
    const std::byte* ask_until = asked;
    for (int i = 0; i < chunk.n_passes; ++i) {
      for (int p = 0; p < block.n_panels; ++p) {
        for (int t = 0; t < block.n_tiles; ++t) {
          for (ask_until += block.next_step; asked < ask_until; asked += kLine) __builtin_prefetch(asked, 0, 2);
          add_pass(chunk.passes[i], {p, t}, ahead, results);
        }
      }
    }
  }

  static constexpr int64_t kMostIn =
      int64_t{Chunk::kMaxScaleGroups} * W::kScaleGroup * kSegments;  // a segment fits into a chunk

  // Rows that are whole tiles among those of a task: [begin, end).
  struct Whole {
    int64_t begin = 0, end = 0;
  };
  static Whole whole_tiles(const LinearTask& task) {
    if (task.xq.tiles == nullptr || task.n_in > kMostIn) return {};
    const int64_t begin = (kTileRows - task.xq.first_row % kTileRows) % kTileRows;
    if (begin + kTileRows > task.n) return {};
    return {begin, begin + (task.n - begin) / kTileRows * kTileRows};
  }

  // Panels [begin, end) of the task's. REQUIRES whole tiles.
  static void run(const LinearTask& task, int64_t begin, int64_t end) {
    const int64_t n_blocks = task.xq.n_activation_groups;
    Unpacked w[kMaxPanels];
    alignas(64) float sums[(kLevels + 1) * kMaxPanels * kMaxTiles * kTileFloats];
    Tiles::begin();
    Chunk chunk(n_blocks, 0);
    const bool is_whole = chunk.end_segment == kSegments;  // the weights then stay unpacked for all rows
    for (int64_t panel = begin; panel < end; panel += kMaxPanels) {
      const int n_panels = end - panel < kMaxPanels ? static_cast<int>(end - panel) : kMaxPanels;
      const bool is_last = panel + kMaxPanels >= task.end;
      const std::byte* next = is_last ? task.after : task.panels + (panel + kMaxPanels) * task.panel_stride;
      // All passes ask for as much.
      const int64_t n_passes = is_whole ? int64_t{chunk.n_passes} : n_blocks * kHalves / kMostOfPass;
      const int64_t step =
          next == nullptr ? 0 : kMaxPanels * task.panel_stride * kTileRows / (task.n * n_panels * n_passes) + 1;
      for (int64_t row = 0; row < task.n; row += kMaxTiles * kTileRows) {
        const int64_t n_tiles = (task.n - row) / kTileRows;
        Block block{.task = &task,
                    .panel = panel,
                    .n_panels = n_panels,
                    .x = task.xq.tiles + (task.xq.first_row + row) / kTileRows * task.xq.tile_stride,
                    .row = row,
                    .n_tiles = static_cast<int>(n_tiles < kMaxTiles ? n_tiles : kMaxTiles),
                    .w = w,
                    .sums = sums,
                    .next = next,
                    .next_step = step};
        for (int segment = 0; segment < kSegments; segment = chunk.end_segment) {
          if (!is_whole) chunk = Chunk(n_blocks, segment);
          for (int p = 0; p < n_panels && (row == 0 || !is_whole); ++p) {
            w[p].unpack(chunk, task.panels + (panel + p) * task.panel_stride, n_blocks);
          }
          multiply(block, chunk);
          block.next += int64_t{chunk.n_passes} * n_panels * block.n_tiles * step;
        }
        next = block.next;
      }
    }
    Tiles::end();
  }
};

}  // namespace
}  // namespace quire
