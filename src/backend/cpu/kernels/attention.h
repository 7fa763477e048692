// Attention of new rows over the paged cache, online softmax in f32 (docs/numerics.md, "Attention").
// A tile is up to 8 (with 32 registers 16) (row, query head) pairs of one KV head: each loaded key or value serves all
// of them. Keys are cut at absolute multiples of 256; every chunk makes its own (m, l, o) and chunks merge in position
// order. A lane is a position mod 16. A key that a row may not see is never multiplied: its lane is replaced before
// exp, and values are summed over the row's own range only. Where v_dim is no multiple of 16 the last lanes hold a
// neighbour's components and are dropped at the end (the pool ends with room for one such read, see CpuOps::allocate).
// Values that are components of keys are transposed as they are used: of a chunk's keys a few components at a time,
// once for all rows of the tile, which lie then as values of their own do (Tile::transposed).
// Keys that are kept beside a window are a chunk of their own, which comes first, under queries of their own. Where a
// codec packs strips a row's tail, which lies elsewhere in another codec, is a chunk of its own, which comes last.
// Reads K and V once per tile: bytes = keys · (k_row_bytes + v_row_bytes).
// A task may take a span of the chunks only: it leaves each chunk's (m, l, o) in task.states, and join() merges them in
// position order with the same operations, so the result has the same bits. Source: FlashDecoding's split over keys.
#pragma once
#include <type_traits>

#include "backend/cpu/kernels/exp.h"
#include "backend/cpu/kernels/factors.h"
#include "backend/cpu/kernels/flush.h"
#include "backend/cpu/kernels/leaning_task.h"
#include "ops/seen_keys.h"
#include "quant/kv_codec.h"
#include "quant/rotation.h"

namespace quire {
namespace {

inline constexpr int kChunk = kAttentionChunk;
inline constexpr int kChunkStrips = kChunk / kStripTokens;

template <class V, class C>
struct AttentionKernel {
  using F = typename V::F;
  using Step = Factors<V, C>;
  static constexpr int kStep = C::kTogether;  // components of keys, or values, of one step of a sum

  // Whether values are the last components of keys: no value of its own begins where its key does.
  static bool are_in_keys(const AttentionTask& task) { return task.v_offset == task.k_offset; }

  // Keys [t0, t1) of a chunk.
  struct Range {
    int t0, t1;
    bool is_empty() const { return t0 >= t1; }
  };

  // Addresses of a chunk's strips.
  struct Strips {
    const std::byte* k[kChunkStrips];
    const std::byte* v[kChunkStrips];
  };

  // The machine is asked for what comes soon, since its own prefetcher does not see where a strip's run of a few KiB
  // begins: with the scores for the chunk's values, with the sum of values for the next chunk's keys, so that reading
  // goes on evenly. Into the second-level cache: all of it in the first would drive each other out. Of tiles of 16
  // rows only a task's first asks, and nobody where a vocabulary says kPrefetches = false.
  static constexpr bool kCanAsk = V::kPrefetches;
  static constexpr int kNear = 2;  // of __builtin_prefetch: the second level

  // Steps of a sum for each time that something is asked for: two where one reads a quarter of a line of 64 bytes. Two
  // of f16, half a line each, were slower.
  static constexpr int64_t kStepBytes = C::row_bytes(64) * kStripTokens * kStep / 64;
  static constexpr int kSteps = kStepBytes <= 17 ? 2 : 1;

  // How many of a tile's rows are summed at once, so that their sums stay in registers; and how many vectors of each,
  // so that enough products are in flight.
  template <int M>
  static constexpr int kTogether = M < Step::kRows ? M : Step::kRows;
  template <int M>
  static constexpr int kVectors = kTogether<M> >= Step::kSums ? 1 : Step::kSums / kTogether<M>;

  template <int M>
  struct Tile {
    float* out[M];
    float slope[M];  // of task.slopes
    int chunk;       // position of the chunk's first key
    int v_dim;
    int first_in_keys;    // of values that are components of keys the first; below 0: they lie on their own
    int v_width, v_from;  // components that at.v's values have where they are read, and of v_dim the first of these
    SeenKeys seen[M];     // visible keys of this codec, absolute
    int last[M];          // the last key that a row sees
    int lo[M], hi[M];     // the same within the chunk; empty where hi ≤ lo
    float m[M], l[M];     // running maximum and sum
    float chunk_m[M], chunk_l[M];
    alignas(64) float q[kMaxHeadDim][M];  // as steps take it, component after component: so rows need no pointer each
    alignas(64) float score[M][kChunk];   // then weights of the values, as steps take them
    alignas(64) float o[M][kMaxHeadDim];  // running output
    Strips at, next;                      // of this chunk and of the next one
    int next_end;                         // keys of the next chunk; 0: there is none
    int64_t k_step, v_step;  // bytes of a strip of keys per component of a value; of values per component of a key
    // Values of a chunk's strips, of kTransposed vectors of components, as the codec has values.
    static constexpr int kTransposed = kVectors<M> < 4 ? kVectors<M> : 4;
    static constexpr int kTransposedBytes = C::kValuesInKeys ? kStripTokens * (kTransposed * 16 + 32) * 4 : 1;
    alignas(64) std::byte transposed[C::kValuesInKeys ? kChunkStrips : 1][kTransposedBytes];
  };

  // The strips that keys [lo, hi) of a chunk lie in.
  static void locate(const AttentionTask& task, int chunk, int lo, int hi, Strips& strips) {
    for (int g = lo / kStripTokens; g * kStripTokens < hi; ++g) {
      const int position = chunk + g * kStripTokens;
      const int64_t block = task.blocks[position / task.block_tokens];
      const int64_t strip = position % task.block_tokens / kStripTokens;
      const std::byte* base = task.kv + block * task.block_bytes;
      strips.k[g] = base + task.k_offset + strip * kStripTokens * task.k_row_bytes;
      strips.v[g] = base + task.v_offset + strip * kStripTokens * task.v_row_bytes;
    }
  }

  // Scores of R rows from `first` on, in G neighbouring strips from g on.
  template <int R, int G, bool kAsk, int M>
  static QR_INLINE void score_strips(const AttentionTask& task, int first, int g, Tile<M>& tile) {
    F acc[R * G];
    for (int i = 0; i < R * G; ++i) acc[i] = V::zero();
    const float* q_at = &tile.q[0][first];
    const auto step = [&](int d) __attribute__((always_inline)) {
      for (int part = 0; part < Step::kParts; ++part) {
        F q[R];
        for (int i = 0; i < R; ++i) q[i] = Step::shared(q_at + i, M, part);
        for (int j = 0; j < G; ++j) {
          const auto k = Step::key(tile.at.k[g + j], d, part);
          for (int i = 0; i < R; ++i) acc[i * G + j] = Step::add(k, q[i], acc[i * G + j]);
        }
      }
      q_at += M * kStep / Step::kPerFloat;
    };
    int d = 0;
    for (; d + kStep * (kSteps - 1) < task.k_dim; d += kStep * kSteps) {
      for (int j = 0; kAsk && j < G; ++j) __builtin_prefetch(tile.at.v[g + j] + d * tile.v_step, 0, kNear);
      for (int s = 0; s < kSteps; ++s) step(d + s * kStep);
    }
    if (kSteps > 1 && d < task.k_dim) step(d);
    const F scale = V::set1(task.scale);
    for (int i = 0; i < R; ++i) {
      for (int j = 0; j < G; ++j) {
        F s = V::mul(C::template scale_k<V>(tile.at.k[g + j], acc[i * G + j]), scale);
        if (task.soft_cap > 0.0F) s = soft_cap_lanes<V>(s, task.soft_cap);
        V::store(tile.score[first + i] + (g + j) * kStripTokens, s);
      }
    }
  }

  template <bool kAsks, int M>
  static void scores(const AttentionTask& task, int lo, int hi, Tile<M>& tile) {
    constexpr int kRows = kTogether<M>;
    constexpr int kStrips = kVectors<M>;
    const int end = (hi + kStripTokens - 1) / kStripTokens;
    const auto strips = [&]<int G>(int g, std::integral_constant<int, G>) {
      score_strips<kRows, G, kAsks>(task, 0, g, tile);
      for (int first = kRows; first < M; first += kRows) score_strips<kRows, G, false>(task, first, g, tile);
    };
    int g = lo / kStripTokens;
    for (; g + kStrips <= end; g += kStrips) strips(g, std::integral_constant<int, kStrips>());
    for (; g < end; ++g) strips(g, std::integral_constant<int, 1>());
  }

  // Scores by distance: what task.slopes take from those of keys that lie behind the last that a row sees. A pass of
  // its own, so that models without slopes have the loops that they had.
  template <int M>
  [[gnu::noinline]] static void lean_scores(Range keys, Tile<M>& tile) {
    alignas(64) static constexpr float kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const F lanes = V::load(kLanes);
    for (int i = 0; i < M; ++i) {
      const F slope = V::set1(tile.slope[i]);
      for (int g = keys.t0 / kStripTokens; g * kStripTokens < keys.t1; ++g) {
        float* score = tile.score[i] + g * kStripTokens;
        const int from_last = tile.chunk + g * kStripTokens - tile.last[i];
        const F distance = V::add(V::set1(static_cast<float>(from_last)), lanes);
        V::store(score, V::fma(slope, distance, V::load(score)));
      }
    }
  }

  // The end of the strips of row i's keys, from its first on, that it sees as a whole.
  template <int M>
  static int whole_strips(const Tile<M>& tile, int i) {
    return tile.lo[i] % kStripTokens == 0 ? tile.hi[i] / kStripTokens : 0;
  }

  // The largest score of row i's visible keys. Of all rows before any exp: it takes a row's time to fold a vector, and
  // nothing else could begin.
  template <int M>
  static void maximum(Tile<M>& tile, int i) {
    const float* score = tile.score[i];
    const int lo = tile.lo[i];
    const int hi = tile.hi[i];
    const F none = V::set1(-__builtin_inff());
    const int whole = whole_strips(tile, i);
    F m = none;
    int g = lo / kStripTokens;
    for (; g < whole; ++g) m = V::max(V::load(score + g * kStripTokens), m);
    for (; g * kStripTokens < hi; ++g) {
      m = V::max(V::inside(lo - g * kStripTokens, hi - g * kStripTokens, V::load(score + g * kStripTokens), none), m);
    }
    tile.chunk_m[i] = V::max_of(m);
  }

  // Scores of row i's visible keys → probabilities against the chunk's own maximum, as the codec weighs its values.
  template <int M>
  static void softmax(Tile<M>& tile, int i) {
    constexpr int kSome = V::kSideBySide;
    float* score = tile.score[i];
    const int lo = tile.lo[i];
    const int hi = tile.hi[i];
    const int whole = whole_strips(tile, i);
    const F shift = V::set1(tile.chunk_m[i]);
    F l = V::zero();
    const auto strips = [&]<int N>(int g, std::integral_constant<int, N>,
                                   bool is_whole) __attribute__((always_inline)) {
      F p[N];
      for (int j = 0; j < N; ++j) p[j] = V::sub(V::load(score + (g + j) * kStripTokens), shift);
      exp_some<V, N, false>(p);
      for (int j = 0; j < N; ++j) {
        const int first = (g + j) * kStripTokens;
        if (!is_whole) p[j] = V::inside(lo - first, hi - first, p[j], V::zero());
        Step::store_shared(score + first / Step::kPerFloat, C::template scale_v<V>(tile.at.v[g + j], p[j]));
        l = V::add(l, p[j]);
      }
    };
    int g = lo / kStripTokens;
    for (; g + kSome <= whole; g += kSome) strips(g, std::integral_constant<int, kSome>(), true);
    for (; g * kStripTokens < hi; ++g) strips(g, std::integral_constant<int, 1>(), false);
    tile.chunk_l[i] = V::sum(l);
  }

  // Adds values [t0, t1) of the chunk, components d … d+15, to row i's sum. Where t0 or t1 cuts a pair its other half
  // is zeros.
  template <int M>
  static QR_INLINE F one_row(const Tile<M>& tile, int i, Range keys, int d, F acc) {
    d -= tile.v_from;
    for (int t = keys.t0 / kStep * kStep; t < keys.t1; t += kStep) {
      const std::byte* strip = tile.at.v[t / kStripTokens];
      for (int part = 0; part < Step::kParts; ++part) {
        auto v = Step::value(strip, t % kStripTokens, tile.v_width, d, part);
        if constexpr (kStep == 2) {
          const bool is_cut = t < keys.t0 || t + 1 == keys.t1;
          if (is_cut)
            v = Step::half_value(C::value(strip, t % kStripTokens, tile.v_width, d), t < keys.t0 ? 1 : 0, part);
        }
        acc = Step::add(v, Step::shared(&tile.score[i][t / Step::kPerFloat], 1, part), acc);
      }
    }
    return acc;
  }

  // What the running (m, l) of M rows and a chunk's become together, and what the two sums of values are worth in it.
  // The first chunk is taken as it is; one of which a row sees nothing (−∞, 0) changes nothing.
  template <int M>
  struct Merges {
    static_assert(M <= 16);
    bool is_first[M];
    alignas(64) float a[16] = {}, b[16] = {};
    QR_INLINE Merges(float* m, float* l, const float* chunk_m, const float* chunk_l) {
      float both[M];
      for (int i = 0; i < M; ++i) {
        is_first[i] = l[i] == 0.0F;
        both[i] = chunk_m[i] > m[i] ? chunk_m[i] : m[i];
        a[i] = m[i] - both[i];
        b[i] = chunk_m[i] - both[i];
      }
      F worth[2] = {V::load(a), V::load(b)};
      exp_some<V, 2, false>(worth);
      V::store(a, worth[0]);
      V::store(b, worth[1]);
      for (int i = 0; i < M; ++i) {
        m[i] = is_first[i] ? chunk_m[i] : both[i];
        l[i] = is_first[i] ? chunk_l[i] : __builtin_fmaf(l[i], a[i], chunk_l[i] * b[i]);
      }
    }
    QR_INLINE void values(int i, float* to, F o) const {
      V::store(to, is_first[i] ? o : V::fma(V::load(to), V::set1(a[i]), V::mul(o, V::set1(b[i]))));
    }
  };

  // Components d … d + 16·G of the keys' values as at.v's own.
  template <int G, int M>
  static void transpose_values(Range keys, int d, Tile<M>& tile) {
    tile.v_from = d;
    tile.v_width = 16 * G;
    const int n = tile.v_dim - d < 16 * G ? tile.v_dim - d : 16 * G;
    for (int g = keys.t0 / kStripTokens; g * kStripTokens < keys.t1; ++g) {
      C::values_of_keys(tile.at.k[g], tile.first_in_keys + d, n, 16 * G, tile.transposed[g]);
      tile.at.v[g] = tile.transposed[g];
    }
  }

  // Of the chunk's keys.
  template <bool kAsks, int M>
  static void values(Range keys, Tile<M>& tile) {
    int lo = 0;
    int hi = kChunk;
    for (int i = 0; i < M; ++i) {
      lo = tile.lo[i] > lo ? tile.lo[i] : lo;
      hi = tile.hi[i] < hi ? tile.hi[i] : hi;
    }
    lo = (lo + kStep - 1) / kStep * kStep;
    hi = hi / kStep * kStep;
    const Merges<M> merges(tile.m, tile.l, tile.chunk_m, tile.chunk_l);
    const Range seen{lo, hi};
    if constexpr (C::kValuesInKeys) {
      if (tile.first_in_keys >= 0) {
        transposed_values<kAsks, Tile<M>::kTransposed>(keys, seen, 0, merges, tile);
        return;
      }
    }
    all_values<kAsks, kVectors<M>>(seen, 0, merges, tile);
  }

  // all_values() of values that are components of keys.
  template <bool kAsks, int G, int M>
  static void transposed_values(Range keys, Range seen, int d, const Merges<M>& merges, Tile<M>& tile) {
    constexpr int kRows = kTogether<M>;
    for (; d + 16 * (G - 1) < tile.v_dim; d += 16 * G) {
      transpose_values<G>(keys, d, tile);
      add_values<kAsks, kRows, G>(0, seen, d, merges, tile);
      for (int first = kRows; first < M; first += kRows) add_values<false, kRows, G>(first, seen, d, merges, tile);
    }
    if constexpr (G > 1) transposed_values<kAsks, G / 2>(keys, seen, d, merges, tile);
  }

  // Components from d on: G vectors of 16 at once, then half as many.
  template <bool kAsks, int G, int M>
  static void all_values(Range seen, int d, const Merges<M>& merges, Tile<M>& tile) {
    constexpr int kRows = kTogether<M>;
    for (; d + 16 * (G - 1) < tile.v_dim; d += 16 * G) {
      add_values<kAsks, kRows, G>(0, seen, d, merges, tile);
      for (int first = kRows; first < M; first += kRows) add_values<false, kRows, G>(first, seen, d, merges, tile);
    }
    if constexpr (G > 1) all_values<kAsks, G / 2>(seen, d, merges, tile);
  }

  // Values of the chunk's keys onto the sums of R rows from `first` on, G vectors of 16 components from d on. `seen`:
  // the keys that every row of the tile sees, in whole steps.
  template <bool kAsks, int R, int G, int M>
  static QR_INLINE void add_values(int first, Range seen, int d, const Merges<M>& merges, Tile<M>& tile) {
    const bool common = seen.t1 > seen.t0;
    const int width = tile.v_width, from = d - tile.v_from;
    F acc[R * G];
    for (int i = 0; i < R; ++i) {
      const int row = first + i;
      const Range before{tile.lo[row], common ? seen.t0 : tile.hi[row]};
      for (int j = 0; j < G; ++j) {
        acc[i * G + j] = V::zero();
        if (!before.is_empty()) acc[i * G + j] = one_row(tile, row, before, d + 16 * j, acc[i * G + j]);
      }
    }
    const auto add = [&](int g, int begin, int end) {
      const std::byte* strip = tile.at.v[g];
      // Where there is nothing to ask for, these values are: a loop without the instruction was slower (8 rows, AVX2).
      const bool asks = kAsks && g * kStripTokens < tile.next_end;
      const std::byte* soon = asks ? tile.next.k[g] + d * tile.k_step : strip;
      const float* score = tile.score[first] + (g * kStripTokens + begin) / Step::kPerFloat;
      const auto step = [&](int t) __attribute__((always_inline)) {
        for (int part = 0; part < Step::kParts; ++part) {
          F p[R];
          for (int i = 0; i < R; ++i) p[i] = Step::shared(score + i * kChunk, 1, part);
          for (int j = 0; j < G; ++j) {
            const auto v = Step::value(strip, t, width, from + 16 * j, part);
            for (int i = 0; i < R; ++i) acc[i * G + j] = Step::add(v, p[i], acc[i * G + j]);
          }
        }
        score += kStep / Step::kPerFloat;
      };
      int t = begin;
      for (; t + kStep * (kSteps - 1) < end; t += kStep * kSteps) {
        asm volatile("" : "+r"(score));  // or g++ keeps a pointer for each row, more than there are registers
        for (int j = 0; kAsks && j < G; ++j) __builtin_prefetch(soon + (t + 16 * j) * tile.k_step, 0, kNear);
        for (int s = 0; s < kSteps; ++s) step(t + s * kStep);
      }
      if (kSteps > 1 && t < end) step(t);
    };
    // Whole strips in a loop of their own, so that sums stay in registers from one to the next.
    int g = seen.t0 / kStripTokens;
    for (int begin = seen.t0 % kStripTokens; g * kStripTokens < seen.t1; ++g, begin = 0) {
      if (begin == 0) {
        for (; (g + 1) * kStripTokens <= seen.t1; ++g) add(g, 0, kStripTokens);
      }
      const int n = seen.t1 - g * kStripTokens;
      if (n > 0) add(g, begin, n < kStripTokens ? n : kStripTokens);
    }
    for (int i = 0; i < R; ++i) {
      const int row = first + i;
      if (tile.hi[row] <= tile.lo[row]) continue;
      const Range after{common ? seen.t1 : tile.hi[row], tile.hi[row]};
      for (int j = 0; j < G; ++j) {
        F& sum = acc[i * G + j];
        if (!after.is_empty()) sum = one_row(tile, row, after, d + 16 * j, sum);
        merges.values(row, tile.o[row] + d + 16 * j, sum);
      }
    }
  }

  // The tile's queries, as steps take them; `for_kept`: as they meet keys that are kept beside the window.
  template <int M>
  static void load_queries(const AttentionTask& task, int64_t pair, bool for_kept, Tile<M>& tile) {
    for (int i = 0; i < M; ++i) {
      const int64_t row = task.row_begin + (pair + i) / task.heads_per_kv;
      const int64_t head = (pair + i) % task.heads_per_kv;
      const float* q = task.q + row * task.q_stride + head * task.k_dim;
      float kept_q[kMaxHeadDim];
      if (for_kept && task.rotations != nullptr) {
        for (int d = 0; d < task.k_dim; ++d) kept_q[d] = q[d];
        task.rotate_head(kept_q, task.rotations + row * task.rotations_stride, task.n_rotations,
                         task.rotations_interleaved);
        q = kept_q;
      }
      float rotated[C::kRotatesKeys ? kMaxHeadDim : 1];
      if constexpr (C::kRotatesKeys) {
        rotate_query(q, task.k_dim, rotated);
        q = rotated;
      }
      float shared[kMaxHeadDim];
      for (int d = 0; d < task.k_dim; d += 16) {
        Step::store_shared(shared + d / Step::kPerFloat, V::load_n(q + d, task.k_dim - d));
      }
      const int n_floats = (task.k_dim + kStep - 1) / kStep * kStep / Step::kPerFloat;
      for (int x = 0; x < n_floats; ++x) tile.q[x][i] = shared[x];
    }
  }

  // Scores, weights and values of the keys [lo, hi) of a chunk, of which `range_of` says what a row sees.
  template <bool kAsks, int M, class RangeOf>
  static QR_INLINE void add_chunk(const LeaningTask& task, Range keys, Tile<M>& tile, const RangeOf& range_of) {
    scores<kAsks>(task, keys.t0, keys.t1, tile);
    if (task.slopes != nullptr) lean_scores(keys, tile);
    for (int i = 0; i < M; ++i) {
      const Range seen = range_of(tile.seen[i]);
      tile.lo[i] = seen.t0;
      tile.hi[i] = seen.t1;
      tile.chunk_m[i] = -__builtin_inff();
      tile.chunk_l[i] = 0.0F;
      if (tile.hi[i] > tile.lo[i]) maximum(tile, i);
    }
    for (int i = 0; i < M; ++i) {
      if (tile.hi[i] > tile.lo[i]) softmax(tile, i);
    }
    values<kAsks>(keys, tile);
  }

  // What a tile's rows see together; `kept` is empty where no row sees keys beside its window.
  struct Extent {
    int begin, end;
    Range kept;
  };

  // Of `keys_of` what a row sees: the keys that are taken.
  template <int M, class KeysOf>
  static QR_INLINE Extent begin_tile(const LeaningTask& task, int64_t pair, Tile<M>& tile, const KeysOf& keys_of) {
    tile.v_dim = tile.v_width = task.v_dim;
    tile.v_from = 0;
    tile.first_in_keys = are_in_keys(task) ? task.k_dim - task.v_dim : -1;
    tile.k_step = kStripTokens * task.k_row_bytes / task.v_dim;
    tile.v_step = kStripTokens * task.v_row_bytes / task.k_dim;
    Extent out{INT32_MAX, 0, {INT32_MAX, 0}};
    for (int i = 0; i < M; ++i) {
      const int64_t row = task.row_begin + (pair + i) / task.heads_per_kv;
      const int64_t head = (pair + i) % task.heads_per_kv;
      tile.out[i] = task.out + row * task.out_stride + head * task.v_dim;
      const SeenKeys seen = keys_of(seen_keys(task.first_key[row], task.end_key[row], task.window, task.n_kept));
      tile.seen[i] = seen;
      tile.last[i] = task.end_key[row] - 1;
      tile.slope[i] = task.slopes != nullptr ? task.slopes[head] : 0.0F;
      tile.m[i] = -__builtin_inff();
      tile.l[i] = 0.0F;
      out.begin = seen.first < out.begin ? seen.first : out.begin;
      out.end = seen.end > out.end ? seen.end : out.end;
      if (seen.kept_end > seen.kept_begin) {
        out.kept.t0 = seen.kept_begin < out.kept.t0 ? seen.kept_begin : out.kept.t0;
        out.kept.t1 = seen.kept_end;
      }
    }
    return out;
  }

  template <int M, bool kAsks = kCanAsk>
  static void run_tile(const LeaningTask& task, int64_t pair) {
    Tile<M> tile;
    const auto [begin, end, kept] = begin_tile(task, pair, tile, [](const SeenKeys& seen) {
      if constexpr (C::kPacks) return packed_keys(seen);
      return seen;
    });
    if (task.states != nullptr) clear_states(task, pair, M);
    const int first_chunk = begin / kChunk > task.first_chunk ? begin / kChunk : task.first_chunk;
    const int end_chunk = (end + kChunk - 1) / kChunk < task.end_chunk ? (end + kChunk - 1) / kChunk : task.end_chunk;
    const int n_before = task.takes_kept && !kept.is_empty() ? 1 : 0;
    load_queries(task, pair, n_before > 0, tile);
    for (int c = first_chunk - n_before; c < end_chunk; ++c) {
      const bool of_kept = c < first_chunk;
      const int chunk = of_kept ? 0 : c * kChunk;
      const int lo = of_kept ? kept.t0 : begin > chunk ? begin - chunk : 0;
      const int hi = of_kept ? kept.t1 : end - chunk < kChunk ? end - chunk : kChunk;
      tile.chunk = chunk;
      locate(task, chunk, lo, hi, tile.at);
      tile.next_end = 0;
      if (!of_kept && c + 1 < end_chunk) tile.next_end = end - chunk - kChunk < kChunk ? end - chunk - kChunk : kChunk;
      if (kAsks) locate(task, chunk + kChunk, 0, tile.next_end, tile.next);
      add_chunk<kAsks>(task, {lo, hi}, tile, [=](const SeenKeys& seen) __attribute__((always_inline)) {
        if (of_kept) return Range{seen.kept_begin, seen.kept_end};
        return Range{seen.first > chunk ? seen.first - chunk : 0,
                     seen.end - chunk < kChunk ? seen.end - chunk : kChunk};
      });
      if (task.states != nullptr) leave_states(task, pair, of_kept ? task.states_chunk : c, tile);
      if (of_kept) load_queries(task, pair, false, tile);
    }
    if (task.states != nullptr) return;
    if constexpr (C::kPacks) AttentionKernel<V, typename C::Tail>::add_tail(*task.tail, pair, tile);
    for (int i = 0; i < M; ++i) {
      finish(task, tile.out[i], tile.o[i], with_sink(task, pair + i, tile.m[i], tile.l[i]));
    }
  }

  // Onto the running m, l and o of `rows`, a tile of the codec that packs: each row's tail.
  template <class Rows, int M = std::extent_v<decltype(Rows::m)>>
  static void add_tail(const LeaningTask& task, int64_t pair, Rows& rows) {
    Tile<M> tile;
    const auto [begin, end, kept] = begin_tile(task, pair, tile, [](const SeenKeys& seen) { return tail_keys(seen); });
    const int width = (task.v_dim + 15) / 16 * 16;
    for (int i = 0; i < M; ++i) {
      tile.m[i] = rows.m[i];
      tile.l[i] = rows.l[i];
      for (int d = 0; tile.l[i] != 0.0F && d < width; d += 16) V::store(tile.o[i] + d, V::load(rows.o[i] + d));
    }
    load_queries(task, pair, false, tile);
    for (int c = begin / kChunk; c * kChunk < end; ++c) {
      const int chunk = c * kChunk;
      const int lo = begin > chunk ? begin - chunk : 0, hi = end - chunk < kChunk ? end - chunk : kChunk;
      tile.chunk = chunk;
      tile.next_end = 0;
      locate(task, chunk, lo, hi, tile.at);
      add_chunk<false>(task, {lo, hi}, tile, [=](const SeenKeys& seen) __attribute__((always_inline)) {
        return Range{seen.first > chunk ? seen.first - chunk : 0,
                     seen.end - chunk < kChunk ? seen.end - chunk : kChunk};
      });
    }
    for (int i = 0; i < M; ++i) {
      rows.m[i] = tile.m[i];
      rows.l[i] = tile.l[i];
      for (int d = 0; d < width; d += 16) V::store(rows.o[i] + d, V::load(tile.o[i] + d));
    }
  }

  // What the running sum of a (row, head) becomes with its head's sink, and what its values are worth then.
  struct Total {
    float worth, l;
  };
  static Total with_sink(const AttentionTask& task, int64_t pair, float m, float l) {
    if (task.sinks == nullptr) return {1.0F, l};
    const float one = 1.0F;
    const Merges<1> merge(&m, &l, task.sinks + pair % task.heads_per_kv, &one);
    return {merge.a[0], l};
  }

  static void finish(const AttentionTask& task, float* out, const float* o, Total total) {
    const F inverse = V::set1(1.0F / total.l), worth = V::set1(total.worth);
    for (int d = 0; d < task.v_dim; d += 16) {
      const int n = task.v_dim - d < 16 ? task.v_dim - d : 16;
      F sum = V::load(o + d);
      if (task.sinks != nullptr) sum = V::mul(sum, worth);
      V::store_n(out + d, V::mul(sum, inverse), n);
    }
    if (are_in_keys(task)) {
      if constexpr (C::kRotatesKeys) unrotate_last(out, task.k_dim, task.v_dim);
    } else {
      if constexpr (C::kRotatesValues) unrotate_key(out, task.v_dim);
    }
  }

  // The state of a chunk: o, v_dim rounded up to 16, then m and l. l is 0 where the row sees no key of the chunk.
  static float* state_of(const AttentionTask& task, int64_t pair, int chunk) {
    return task.states + (pair * task.n_states + chunk - task.states_chunk) * attention_state_floats(task.v_dim);
  }

  template <int M>
  static void leave_states(const AttentionTask& task, int64_t pair, int chunk, Tile<M>& tile) {
    const int n = attention_state_floats(task.v_dim);
    for (int i = 0; i < M; ++i) {
      if (tile.l[i] == 0.0F) continue;
      float* state = state_of(task, pair + i, chunk);
      for (int d = 0; d < n - 16; d += 16) V::store(state + d, V::load(tile.o[i] + d));
      state[n - 16] = tile.m[i];
      state[n - 15] = tile.l[i];
      tile.m[i] = -__builtin_inff();
      tile.l[i] = 0.0F;
    }
  }

  static void clear_states(const AttentionTask& task, int64_t pair, int n_pairs) {
    const int n = attention_state_floats(task.v_dim);
    for (int i = 0; i < n_pairs; ++i) {
      if (task.takes_kept && task.n_kept > 0) state_of(task, pair + i, task.states_chunk)[n - 15] = 0.0F;
      for (int c = task.first_chunk; c < task.end_chunk; ++c) state_of(task, pair + i, c)[n - 15] = 0.0F;
    }
  }

  // The running state of one (row, head).
  struct Running {
    float m[1], l[1];
    alignas(64) float o[1][kMaxHeadDim];
  };

  // Merges the states of the task's chunks.
  static void join(const AttentionTask& given) {
    const auto& task = static_cast<const LeaningTask&>(given);
    const int n = attention_state_floats(task.v_dim);
    const int64_t n_pairs = (task.row_end - task.row_begin) * task.heads_per_kv;
    for (int64_t pair = 0; pair < n_pairs; ++pair) {
      Running sum;
      sum.m[0] = -__builtin_inff();
      sum.l[0] = 0.0F;
      for (int c = task.states_chunk; c < task.end_chunk; ++c) {
        const float* state = state_of(task, pair, c);
        if (state[n - 15] == 0.0F) continue;
        const Merges<1> merge(sum.m, sum.l, state + n - 16, state + n - 15);
        for (int d = 0; d < n - 16; d += 16) merge.values(0, sum.o[0] + d, V::load(state + d));
      }
      if constexpr (C::kPacks) AttentionKernel<V, typename C::Tail>::add_tail(*task.tail, pair, sum);
      const int64_t row = task.row_begin + pair / task.heads_per_kv;
      finish(task, task.out + row * task.out_stride + pair % task.heads_per_kv * task.v_dim, sum.o[0],
             with_sink(task, pair, sum.m[0], sum.l[0]));
    }
  }

  static void run(const AttentionTask& given) {
    const auto& task = static_cast<const LeaningTask&>(given);
    const int64_t n_pairs = (task.row_end - task.row_begin) * task.heads_per_kv;
    int64_t pair = 0;
    if constexpr (V::kAttentionRows >= 16) {
      if (n_pairs >= 16) run_tile<16>(task, 0);
      for (pair = n_pairs >= 16 ? 16 : 0; pair + 16 <= n_pairs; pair += 16) run_tile<16, false>(task, pair);
    }
    for (; pair + 8 <= n_pairs; pair += 8) run_tile<8>(task, pair);
    if (n_pairs - pair >= 4) {
      run_tile<4>(task, pair);
      pair += 4;
    }
    if (n_pairs - pair >= 2) {
      run_tile<2>(task, pair);
      pair += 2;
    }
    if (pair < n_pairs) run_tile<1>(task, pair);
  }

  static void put_k(std::byte* strip, int t, int dim, const float* row) {
    if constexpr (!C::kPacks) C::put_k(strip, t, dim, row);
  }
  static void put_v(std::byte* strip, int t, int dim, const float* row) {
    if constexpr (!C::kPacks) C::put_v(strip, t, dim, row);
  }

  // kPart in the mode that products of pairs want.
  template <void (*kPart)(const AttentionTask&)>
  static void flushing(const AttentionTask& task) {
    if constexpr (kStep == 2) {
      const FlushSubnormals flush;
      return kPart(task);
    }
    kPart(task);
  }
};

template <class V, class C>
constexpr AttentionKernels make_attention_kernels() {
  using Kernel = AttentionKernel<V, C>;
  return {.codec = C::kName,
          .put_k = C::kPacks ? nullptr : &Kernel::put_k,
          .put_v = C::kPacks ? nullptr : &Kernel::put_v,
          .run = &Kernel::template flushing<&Kernel::run>,
          .join = &Kernel::template flushing<&Kernel::join>};
}

}  // namespace
}  // namespace quire
