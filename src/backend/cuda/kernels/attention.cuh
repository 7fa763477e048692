// Attention over the paged cache (docs/numerics.md, "Attention"). AttendChunk makes (m, l, o) of a chunk of 256 keys
// for a tile of queries: heads that share a KV head, of one row or of many of a sequence. AttendJoin
// (attention_join.cuh) merges a row's chunks in position order.
//
// The chunk's keys, 16 components of all at a time, then its values, some strips at a time, go through a ring of stages
// in shared memory. A warp has kQueries queries, and of 256 keys or of a value's components its share: kKeyWarps warps
// have the same queries.
#pragma once
#include "backend/cuda/kernels/attention_rows.cuh"

namespace quire::cuda {

// Grid: chunks, with one before them where n_before is 1, of keys that are kept beside a window, or the one chunk of
// tails, which is the last of a row; KV heads × runs of heads_together of their heads; runs of rows_together rows from
// first_row on, of tails single ones.
template <class Codec, int kGroups, int kQueries, int kKeyWarps, int kMaxDim, bool kValuesInKeys = false>
struct AttendChunk {
  using Chunk = AttendChunk;
  using Keys = typename Codec::Keys;
  using Values = typename Codec::Values;
  using Arithmetic = typename Codec::Arithmetic;
  static constexpr int kWarps = kGroups * kKeyWarps, kThreads = 32 * kWarps;
  static constexpr int kTile = kGroups * kQueries;       // queries
  static constexpr int kKeys = kChunk / 32 / kKeyWarps;  // of a thread
  static constexpr int kSlice = 16;                      // components of keys in a stage
  static constexpr int kStrips = kChunk / 16;
  static constexpr int kTogether = Keys::kTogether, kWord = Keys::kWord;
  static constexpr int kRunBytes = 16 * kWord;                              // kTogether components of a strip's keys
  static constexpr int kStripBytes = (kSlice / kTogether + 1) * kRunBytes;  // so that strips begin in other banks
  static constexpr int kKeyBytes = kStrips * kStripBytes, kValueBytes = 16 * Values::value_bytes(kMaxDim);
  static constexpr int kStageBytes = kKeyBytes > kValueBytes ? kKeyBytes : kValueBytes;
  static constexpr bool kIsOfTails = Codec::kHolds == Holds::tail;
  static constexpr bool kIsStreaming = kGroups == 1;  // whether what limits it is reading; many queries share reads
  // Weights of four queries lie together, by key % kKeys, then key / kKeys.
  static constexpr int kQuads = kQueries / 4, kWeightRun = kChunk / kKeys + 1, kWeights = kKeys * kWeightRun;
  static constexpr int kQueryBytes = kQueries * kMaxDim * 4, kWeightBytes = kQuads * kWeights * 16;
  static constexpr int kGroupBytes =
      kQueryBytes > kWeightBytes ? kQueryBytes : kWeightBytes;  // first the one, then the other
  static constexpr int kLargestAt = kGroups * kGroupBytes;
  static constexpr int kBoundsAt = kLargestAt + kTile * kKeyWarps * 4;
  static constexpr int kStripsAt = kBoundsAt + kTile * 16;       // where keys begin, then where values do
  static constexpr int kStatesAt = kStripsAt + 2 * kStrips * 8;  // of each query
  static constexpr int kScalesAt = kStatesAt + kTile * 8;
  static constexpr int kRingAt = kScalesAt + (Codec::kIsScaled ? 2 * kChunk * 4 : 0);
  // Of many queries one less where that is what makes them fit into any device: with them reading limits less.
  static constexpr int kWithThree = kRingAt + 3 * kStageBytes, kWithFour = kWithThree + kStageBytes;
  static constexpr int kStages = !kIsStreaming && kWithThree <= kLeastShared && kWithFour > kLeastShared ? 3 : 4;
  static constexpr int kSharedBytes = kRingAt + kStages * kStageBytes;
  // That a multiprocessor shall hold at once, of those that its 227 KiB of shared memory have room for.
  static constexpr int kRoom = (227 << 10) / (kSharedBytes + 1024);
  static constexpr int kWanted = kGroups > 1 ? 1 : kValuesInKeys ? 3 : kMaxDim > kUsualHead ? 4 : 5;
  static constexpr int kResident = kRoom < 1 ? 1 : kRoom < kWanted ? kRoom : kWanted;
  static_assert(!kIsOfTails || kIsStreaming);
  static_assert(Codec::kHolds != Holds::packed || (kRingAt | kStripBytes | kStageBytes) % kRunBytes == 0);
  using Scores = float[kQueries][kKeys];
  using Four = FourFloats;
  // Keys of the chunk that a query sees, from the first to the end; the last that it sees at all; its slope's bits.
  using Bounds = Pack<int32_t, 4>;

  Cache cache;
  RowsKeys keys;
  Rows<const float> q, kept_q;  // as they meet keys, and those that are kept; of codecs that rotate keys rotated
  States states;
  int heads_per_kv, heads_together, rows_together;  // heads_together · rows_together ≤ kTile
  int strips_together;                              // of values in a stage
  int value_bytes;                                  // of a token's values
  const float* slopes;                              // [n_heads] or null
  int first_row, end_row, n_before;
  float scale, soft_cap;

  struct Part {
    const int32_t* blocks;
    int row, n_rows, kv_head, head, n_heads;  // the first of them; query i is of row i / n_heads
    int chunk, lo, hi;                        // keys within the chunk that any row sees
    QR_DEVICE int n_queries() const { return n_rows * n_heads; }
    QR_DEVICE int first_strip() const { return lo / 16; }
    QR_DEVICE int end_strip() const { return (hi + 15) / 16; }
  };

  QR_DEVICE int lane() const { return dev::thread() % 32; }
  QR_DEVICE int key_warp() const { return dev::thread() / 32 % kKeyWarps; }
  QR_DEVICE int group() const { return dev::thread() / 32 / kKeyWarps; }
  QR_DEVICE int first_key() const { return (key_warp() * 32 + lane()) * kKeys; }
  QR_DEVICE bool has_queries() const { return state(group() * kQueries) != nullptr; }
  QR_DEVICE int weight_of(int strip, int i) const { return i % kKeys * kWeightRun + strip * (16 / kKeys) + i / kKeys; }
  QR_DEVICE float* state(const Part& p, int query) const {
    const int chunk = kIsOfTails ? states.n_chunks - 1 : dev::block_x();
    return states.of(p.row + query / p.n_heads, p.head + query % p.n_heads, chunk);
  }
  // Where there is such a query; null else.
  QR_DEVICE float* state(int query) const {
    const int64_t at = dev::Shared<int64_t>(kStatesAt)[query];
    return at < 0 ? nullptr : states.data + at;
  }
  QR_DEVICE bool is_of_kept() const { return dev::block_x() < n_before; }
  QR_DEVICE Bounds bounds_of(int row, int chunk) const {
    if (is_of_kept()) return {{keys.first_kept(row), keys.end_kept(row), 0, 0}};
    const int end = keys.end(row) - chunk;
    int lo = keys.first(row) - chunk, hi = end;
    if constexpr (Codec::kHolds != Holds::all) {
      const int tail = (end - 1) / 16 * 16, first = tail > lo ? tail : lo;
      (kIsOfTails ? lo : hi) = first;
    }
    return {{lo > 0 ? lo : 0, hi < kChunk ? hi : kChunk, end - 1, 0}};
  }

  // As many rows from this one on as are of one sequence.
  QR_DEVICE Part part(int row, int end) const {
    const int n_runs = (heads_per_kv + heads_together - 1) / heads_together;
    Part p;
    p.row = row;
    p.kv_head = dev::block_y() / n_runs;
    const int begin = dev::block_y() % n_runs * heads_together;
    p.head = p.kv_head * heads_per_kv + begin;
    p.n_heads = heads_per_kv - begin < heads_together ? heads_per_kv - begin : heads_together;
    p.chunk = is_of_kept() ? 0 : (dev::block_x() - n_before) * kChunk;
    if constexpr (kIsOfTails) p.chunk = (keys.end(row) - 1) / kChunk * kChunk;
    const int seq = keys.sequence_of(row), end_of_seq = dev::load(keys.cu_q + seq + 1);
    p.n_rows = (end_of_seq < end ? end_of_seq : end) - row;
    p.blocks = keys.blocks + int64_t{seq} * keys.max_blocks;
    uint32_t lo = kChunk, hi = 0;
    for (int i = lane(); i < p.n_rows; i += 32) {
      const Bounds of_row = bounds_of(row + i, p.chunk);
      if (of_row.x[0] >= of_row.x[1]) continue;
      const auto first = static_cast<uint32_t>(of_row.x[0]), last = static_cast<uint32_t>(of_row.x[1]);
      lo = first < lo ? first : lo;
      hi = last > hi ? last : hi;
    }
    for (int n = 16; n > 0; n /= 2) {
      const uint32_t other_lo = dev::shuffle_xor(lo, n), other_hi = dev::shuffle_xor(hi, n);
      lo = other_lo < lo ? other_lo : lo;
      hi = other_hi > hi ? other_hi : hi;
    }
    p.lo = static_cast<int>(lo);
    p.hi = static_cast<int>(hi);
    return p;
  }

  QR_DEVICE float query_number(float x) const { return Codec::kPairs ? rounded_to_bf16(x) : x; }

  // Where the strips lie that any row sees; queries, and what each sees.
  QR_DEVICE void prepare(const Part& p) const {
    const int t = dev::thread();
    const dev::Shared<int64_t> strips(kStripsAt), states_at(kStatesAt);
    const dev::Shared<Bounds> bounds(kBoundsAt);
    const dev::Shared<float> query(0);
    if (t < kStrips) {
      int64_t key = -1, value = -1;
      if (t >= p.first_strip() && t < p.end_strip()) {
        const int position = p.chunk + t * 16;
        const int64_t block = dev::load(p.blocks + position / cache.block_tokens);
        key = cache.keys(block, position % cache.block_tokens, p.kv_head) - cache.base;
        value = kValuesInKeys ? key : cache.values(block, position % cache.block_tokens, p.kv_head) - cache.base;
      }
      strips[t] = key;
      strips[kStrips + t] = value;
    }
    for (int i = t; i < kTile; i += kThreads) {
      const bool is_there = i < p.n_queries();
      Bounds of_query = is_there ? bounds_of(p.row + i / p.n_heads, p.chunk) : Bounds{{0, 0, 0, 0}};
      if (slopes != nullptr && is_there) {
        of_query.x[3] = static_cast<int32_t>(dev::as_bits(dev::load(slopes + p.head + i % p.n_heads)));
      }
      bounds[i] = of_query;
      states_at[i] = is_there ? state(p, i) - states.data : -1;
    }
    for (int i = t / 32; i < kTile; i += kWarps) {
      const bool is_there = i < p.n_queries();
      const int64_t row = p.row + i / p.n_heads, head = p.head + i % p.n_heads;
      const float* from = (is_of_kept() ? kept_q.row(row) : q.row(row)) + head * cache.k_dim;
      const int to = (i / kQueries * kGroupBytes) / 4 + i % kQueries * kMaxDim;
      for (int d = lane(); d < cache.k_dim; d += 32)
        query[to + d] = is_there ? query_number(dev::load(from + d)) : 0.0F;
      if (Codec::kPairs && cache.k_dim % 2 == 1 && lane() == 0) query[to + cache.k_dim] = 0.0F;
    }
  }

  QR_DEVICE int n_slices() const { return (cache.k_dim + kSlice - 1) / kSlice; }
  QR_DEVICE int ring_of(int stage) const { return kRingAt + stage % kStages * kStageBytes; }
  QR_DEVICE const uint8_t* numbers(int64_t strip) const { return cache.base + strip + (Codec::kIsScaled ? 64 : 0); }

  QR_DEVICE void copy_scales() const {
    const dev::Shared<int64_t> strips(kStripsAt);
    const dev::Shared<float> scales(kScalesAt);
    for (int i = dev::thread(); i < 2 * kStrips * 4; i += kThreads) {
      const int64_t strip = strips[i / 4];
      const bool is_in = strip >= 0;
      dev::copy16(scales, i * 4, cache.base + (is_in ? strip : 0) + i % 4 * 16, is_in);
    }
  }
  // Words that hold n components of keys.
  QR_DEVICE int words_of(int n) const { return (n + kTogether - 1) / kTogether; }
  // Zeros for strips that no row sees.
  QR_DEVICE void copy_keys(int slice, int to) const {
    constexpr int kThreadsEach = kThreads / kStrips, kPieces = kSlice / kTogether * kWord;
    const dev::Shared<int64_t> strips(kStripsAt);
    const int strip = dev::thread() / kThreadsEach;
    const int64_t at = strips[strip];
    const int left = words_of(cache.k_dim - slice * kSlice) * kWord;
    const uint8_t* from = numbers(at >= 0 ? at : 0) + slice * kPieces * 16;
    for (int i = dev::thread() % kThreadsEach; i < kPieces; i += kThreadsEach) {
      if (i < left) dev::copy16(dev::Shared<uint8_t>(to), strip * kStripBytes + i * 16, from + i * 16, at >= 0);
    }
  }
  // Bytes of a strip's values in a stage.
  QR_DEVICE int strip_bytes() const { return kValuesInKeys ? words_of(cache.v_dim) * kRunBytes : 16 * value_bytes; }
  QR_DEVICE void copy_values(const Part& p, int first, int to) const {
    const dev::Shared<int64_t> strips(kStripsAt);
    const int end = first + strips_together < p.end_strip() ? first + strips_together : p.end_strip();
    const int n = strip_bytes() / 16, before = kValuesInKeys ? (cache.k_dim - cache.v_dim) / kTogether * kRunBytes : 0;
    for (int strip = first; strip < end; ++strip) {
      const uint8_t* from = numbers(strips[kStrips + strip]) + before;
      for (int i = dev::thread(); i < n; i += kThreads) {
        dev::copy16(dev::Shared<uint8_t>(to), ((strip - first) * n + i) * 16, from + i * 16, true);
      }
    }
  }
  QR_DEVICE void begin_stage(const Part& p, int stage) const {
    const int first = p.first_strip() + (stage - n_slices()) * strips_together;
    if (stage < n_slices()) {
      copy_keys(stage, ring_of(stage));
    } else if (first < p.end_strip()) {
      copy_values(p, first, ring_of(stage));
    }
    dev::copy_commit();
  }
  // Waits for a stage, and begins the one that takes the place of the stage before it.
  QR_DEVICE void next_stage(const Part& p, int stage) const {
    dev::copy_wait<kStages - 2>();
    dev::sync();
    begin_stage(p, stage + kStages - 1);
  }

  // kDeep components from d on of a slice, whose first is d0.
  template <int kDeep>
  QR_DEVICE void score_some(int d0, int d, int from, Scores& s) const {
    const dev::Shared<Pack<float, kDeep>> queries(group() * kGroupBytes);
    Pack<float, kDeep> query[kQueries];
    QR_UNROLL
    for (int i = 0; i < kQueries; ++i) query[i] = queries[(i * kMaxDim + d0 + d) / kDeep];
    QR_UNROLL
    for (int j = 0; j < kDeep; ++j) {
      const int c = Codec::kPairs ? j ^ 1 : j;
      float k[kKeys];
      Keys().template read<kKeys>(from + (d + c) / kTogether * kRunBytes, (d + c) % kTogether, k);
      QR_UNROLL
      for (int i = 0; i < kQueries; ++i) {
        QR_UNROLL
        for (int t = 0; t < kKeys; ++t) s[i][t] = Arithmetic().fused(k[t], query[i].x[c], s[i][t]);
      }
    }
  }
  QR_DEVICE void score_slice(int slice, Scores& s) const {
    constexpr int kDeep = 2;
    const int first = first_key();
    const int from = ring_of(slice) + first / 16 * kStripBytes + Keys().key_at(first % 16);
    const int d0 = slice * kSlice, left = cache.k_dim - d0;
    if (left >= kSlice) {
      for (int d = 0; d < kSlice; d += kDeep) score_some<kDeep>(d0, d, from, s);
    } else {
      constexpr int kLast = Codec::kPairs ? 2 : 1;
      for (int d = 0; d < left; d += kLast) score_some<kLast>(d0, d, from, s);
    }
  }

  // Of query i scores, −∞ where its row may not see the key; the largest of this warp.
  QR_DEVICE float finish_scores(int i, float (&s)[kKeys]) const {
    const Bounds seen = dev::Shared<Bounds>(kBoundsAt)[group() * kQueries + i];
    float key_scales[kKeys];
    if constexpr (Codec::kIsScaled) read_words(kScalesAt + first_key() * 4, key_scales);
    float m = -kInfinity;
    QR_UNROLL
    for (int j = 0; j < kKeys; ++j) {
      const int t = first_key() + j;
      float x = s[j];
      if constexpr (Codec::kIsScaled) x = dev::mul(x, key_scales[j]);
      x = Arithmetic().mul(x, scale);
      if (soft_cap > 0.0F) x = soft_capped<Arithmetic>(x, soft_cap);
      if (slopes != nullptr) {
        x = Arithmetic().fused(dev::as_float(static_cast<uint32_t>(seen.x[3])), dev::whole(t - seen.x[2]), x);
      }
      s[j] = t < seen.x[0] || t >= seen.x[1] ? -kInfinity : x;
      m = s[j] > m ? s[j] : m;  // no NaN
    }
    for (int n = 16; n > 0; n /= 2) {
      const float other = dev::shuffle_xor(m, n);
      m = other > m ? other : m;
    }
    return m;
  }
  QR_DEVICE void share_largest(float (&m)[kQueries]) const {
    const dev::Shared<float> largest(kLargestAt);
    const int first = group() * kQueries * kKeyWarps;
    if (lane() == 0) {
      QR_UNROLL
      for (int i = 0; i < kQueries; ++i) largest[first + i * kKeyWarps + key_warp()] = m[i];
    }
    dev::sync();
    QR_UNROLL
    for (int i = 0; i < kQueries; ++i) {
      QR_UNROLL
      for (int w = 0; w < kKeyWarps; ++w) {
        const float other = largest[first + i * kKeyWarps + w];
        m[i] = other > m[i] ? other : m[i];
      }
    }
  }

  // Scores become weights.
  QR_DEVICE void weigh(int i, float m, float (&s)[kKeys]) const {
    const int query = group() * kQueries + i;
    const Bounds seen = dev::Shared<Bounds>(kBoundsAt)[query];
    QR_UNROLL
    for (int j = 0; j < kKeys; ++j) {
      const int t = first_key() + j;
      s[j] = t < seen.x[0] || t >= seen.x[1] ? 0.0F : exp_of(Arithmetic().sub(s[j], m));
    }
    if (key_warp() > 0 || lane() > 0) return;
    if (float* to = state(query)) dev::store(to + cache.v_dim, m);
  }
  // The first query's become the last.
  QR_DEVICE void turn(Scores& s) const {
    QR_UNROLL
    for (int j = 0; j < kKeys; ++j) {
      const float first = s[0][j];
      QR_UNROLL
      for (int i = 1; i < kQueries; ++i) s[i - 1][j] = s[i][j];
      s[kQueries - 1][j] = first;
    }
  }
  QR_DEVICE void weigh_all(Scores& s) const {
    if constexpr (kKeyWarps == 1) {
      for (int i = 0; i < kQueries; ++i) {  // one at a time, which takes fewer registers
        weigh(i, finish_scores(i, s[0]), s[0]);
        turn(s);
      }
      dev::sync_warp();  // its queries are not read any more
    } else {
      float m[kQueries];
      QR_UNROLL
      for (int i = 0; i < kQueries; ++i) m[i] = finish_scores(i, s[i]);
      share_largest(m);
      QR_UNROLL
      for (int i = 0; i < kQueries; ++i) weigh(i, m[i], s[i]);
    }
  }
  QR_DEVICE void put_weights(const Scores& s) const {
    const dev::Shared<Four> weights(group() * kGroupBytes);
    QR_UNROLL
    for (int i = 0; i < kQuads; ++i) {
      QR_UNROLL
      for (int j = 0; j < kKeys; ++j) {
        const Four four = {{s[4 * i][j], s[4 * i + 1][j], s[4 * i + 2][j], s[4 * i + 3][j]}};
        weights[i * kWeights + j * kWeightRun + key_warp() * 32 + lane()] = four;
      }
    }
  }
  static constexpr bool kChangesWeights = Codec::kIsScaled || Codec::kPairs;
  // Weights become those of numbers as the codec has them.
  QR_DEVICE void change_weights() const {
    const dev::Shared<Four> weights(group() * kGroupBytes);
    float value_scales[kKeys];
    if constexpr (Codec::kIsScaled) read_words(kScalesAt + (kChunk + first_key()) * 4, value_scales);
    QR_UNROLL
    for (int i = 0; i < kQuads; ++i) {
      QR_UNROLL
      for (int j = 0; j < kKeys; ++j) {
        const int at = i * kWeights + j * kWeightRun + key_warp() * 32 + lane();
        Four four = weights[at];
        QR_UNROLL
        for (int k = 0; k < 4; ++k) {
          four.x[k] = Codec::kPairs ? rounded_to_bf16(four.x[k]) : dev::mul(four.x[k], value_scales[j]);
        }
        weights[at] = four;
      }
    }
  }

  // Position t in lane t mod 16, then the fold; each half of a warp has four queries. Keys that a row does not see add
  // 0.
  QR_DEVICE void sum_weights() const {
    if (key_warp() > 0) return;
    const int quad = lane() / 16 % kQuads;
    const dev::Shared<Four> weights(group() * kGroupBytes);
    float l[4] = {};
    for (int strip = 0; strip < kStrips; ++strip) {
      const Four four = weights[quad * kWeights + weight_of(strip, lane() % 16)];
      QR_UNROLL
      for (int i = 0; i < 4; ++i) l[i] = dev::add(l[i], four.x[i]);
    }
    QR_UNROLL
    for (int i = 0; i < 4; ++i) {
      l[i] = folded(l[i]);
      if (lane() % 16 > 0 || lane() / 16 >= kQuads) continue;
      if (float* to = state(group() * kQueries + quad * 4 + i)) dev::store(to + cache.v_dim + 1, l[i]);
    }
  }

  // kRuns runs of kWide components that the threads with the same queries have, one behind the other.
  template <int kWide, int kRuns>
  struct Sums {
    static constexpr int kRunWidth = 32 * kKeyWarps * kWide;
    float o[kQueries][kRuns][kWide];
  };

  // Components d … of a token's value, of a strip that is at `strip` in shared memory.
  template <int kWide>
  QR_DEVICE void read_value(int strip, int token, int d, float (&v)[kWide]) const {
    if constexpr (!kValuesInKeys) {
      return Values().template read<kWide>(strip + Values().value_at(token, d, value_bytes),
                                           Values().value_part(token, d), v);
    }
    QR_UNROLL
    for (int k = 0; k < kWide; ++k) {
      float one[1];
      Keys().template read<1>(strip + (d + k) / kTogether * kRunBytes + Keys().key_at(token), (d + k) % kTogether, one);
      v[k] = one[0];
    }
  }

  // Of a token of a strip that is at `from`.
  template <bool kSeesAll, int kWide, int kRuns>
  QR_DEVICE void add_value(int strip, int token, int from, Sums<kWide, kRuns>& sums) const {
    const dev::Shared<Four> weights(group() * kGroupBytes);
    const dev::Shared<Bounds> bounds(kBoundsAt);
    Four four[kQuads];
    QR_UNROLL
    for (int i = 0; i < kQuads; ++i) four[i] = weights[i * kWeights + weight_of(strip, token)];
    QR_UNROLL
    for (int r = 0; r < kRuns; ++r) {
      const int d = r * sums.kRunWidth + first_component<kWide>();
      float v[kWide];
      read_value<kWide>(from, token, d < cache.v_dim ? d : 0, v);
      QR_UNROLL
      for (int i = 0; i < kQueries; ++i) {
        bool is_seen = true;
        if constexpr (!kSeesAll) {
          const Bounds seen = bounds[group() * kQueries + i];
          const auto sees = [&](int t) { return t >= seen.x[0] && t < seen.x[1]; };
          is_seen = sees(strip * 16 + token);
          if (!is_seen && !(Codec::kPairs && sees(strip * 16 + (token ^ 1)))) continue;
        }
        QR_UNROLL
        for (int k = 0; k < kWide; ++k) {  // what is not seen of a pair is zeros, as its weights are
          sums.o[i][r][k] = Arithmetic().fused(is_seen ? v[k] : 0.0F, four[i / 4].x[i % 4], sums.o[i][r][k]);
        }
      }
    }
  }
  template <int kWide>
  QR_DEVICE int first_component() const {
    return (key_warp() * 32 + lane()) * kWide;
  }

  template <int kWide, int kRuns>
  QR_DEVICE void store_sums(const Sums<kWide, kRuns>& sums) const {
    constexpr int kEach = kWide < 2 ? kWide : 2;  // states are 8 bytes apart where v_dim is even
    QR_UNROLL
    for (int i = 0; i < kQueries; ++i) {
      float* of_query = state(group() * kQueries + i);
      if (of_query == nullptr) continue;
      QR_UNROLL
      for (int r = 0; r < kRuns; ++r) {
        const int d = r * sums.kRunWidth + first_component<kWide>();
        if (d >= cache.v_dim) continue;
        auto* to = reinterpret_cast<Pack<float, kEach>*>(of_query + d);
        QR_UNROLL
        for (int k = 0; k < kWide / kEach; ++k) {
          Pack<float, kEach> some;
          QR_UNROLL
          for (int j = 0; j < kEach; ++j) some.x[j] = sums.o[i][r][k * kEach + j];
          dev::store(to + k, some);
        }
      }
    }
  }

  // Keys that all of this warp's queries see.
  QR_DEVICE Bounds seen_by_all() const {
    const dev::Shared<Bounds> bounds(kBoundsAt);
    Bounds all = {{0, kChunk, 0, 0}};
    QR_UNROLL
    for (int i = 0; i < kQueries; ++i) {
      if (state(group() * kQueries + i) == nullptr) continue;
      const Bounds seen = bounds[group() * kQueries + i];
      all.x[0] = seen.x[0] > all.x[0] ? seen.x[0] : all.x[0];
      all.x[1] = seen.x[1] < all.x[1] ? seen.x[1] : all.x[1];
    }
    return all;
  }

  template <int kWide, int kRuns>
  QR_DEVICE void sum_values(const Part& p) const {
    Sums<kWide, kRuns> sums = {};
    const Bounds all = seen_by_all();
    int stage = n_slices();
    for (int first = p.first_strip(); first < p.end_strip(); first += strips_together, ++stage) {
      next_stage(p, stage);
      if (!has_queries()) continue;
      int from = ring_of(stage);
      for (int strip = first; strip < first + strips_together && strip < p.end_strip(); ++strip) {
        const int t = strip * 16;
        if (t >= all.x[0] && t + 16 <= all.x[1]) {
          QR_UNROLL
          for (int i = 0; i < 16; ++i) add_value<true>(strip, Codec::kPairs ? i ^ 1 : i, from, sums);
        } else {
          for (int i = 0; i < 16; ++i) add_value<false>(strip, Codec::kPairs ? i ^ 1 : i, from, sums);
        }
        from += strip_bytes();
      }
    }
    store_sums(sums);
  }

  QR_DEVICE void attend_values(const Part& p) const {
    constexpr int kUnit = 32 * kKeyWarps;
    const int n = cache.v_dim;
    if (n <= kUnit) return sum_values<1, 1>(p);
    if (n % 2 == 0 && n <= 2 * kUnit) return sum_values<2, 1>(p);
    if constexpr (kMaxDim > 2 * kUnit) {
      if (n % 4 == 0 && n <= 4 * kUnit) return sum_values<4, 1>(p);
    }
    if constexpr (kMaxDim > 4 * kUnit) {
      if (n % 4 == 0) return sum_values<4, (kMaxDim + 4 * kUnit - 1) / (4 * kUnit)>(p);
    }
    if constexpr (kQueries == 4) sum_values<1, (kMaxDim + kUnit - 1) / kUnit>(p);
  }
  // Strips of values of that width that a stage holds.
  static constexpr int strips_of(int v_dim) {
    const int bytes = kValuesInKeys ? (v_dim + kTogether - 1) / kTogether * kRunBytes : 16 * Values::value_bytes(v_dim);
    return kStageBytes / bytes;
  }
  // Whether attend_values is for values of that width.
  static constexpr bool takes(int v_dim) {
    constexpr int kUnit = 32 * kKeyWarps;
    return kQueries == 4 || v_dim % 4 == 0 || v_dim <= kUnit || (v_dim % 2 == 0 && v_dim <= 2 * kUnit);
  }

  QR_DEVICE void attend_nothing(const Part& p) const {
    const int i = dev::thread();
    if (i < p.n_queries()) dev::store(state(p, i) + cache.v_dim + 1, 0.0F);
  }

  QR_DEVICE void attend(const Part& p) const {
    if (p.hi <= p.lo) return attend_nothing(p);
    prepare(p);
    dev::sync();
    if constexpr (Codec::kIsScaled) copy_scales();
    for (int i = 0; i < kStages - 1; ++i) begin_stage(p, i);
    Scores s = {};
    for (int i = 0; i < n_slices(); ++i) {
      next_stage(p, i);
      if (has_queries()) score_slice(i, s);
    }
    weigh_all(s);
    put_weights(s);  // in the place of queries that nobody reads any more
    dev::sync();
    sum_weights();
    if constexpr (kChangesWeights) {
      dev::sync();
      change_weights();
    }
    attend_values(p);
  }

  // with(part) for each run of a block's rows that are of one sequence.
  template <class With>
  QR_DEVICE void each_part(const With& with) const {
    const int begin = first_row + dev::block_z() * rows_together;
    const int end = begin + rows_together < end_row ? begin + rows_together : end_row;
    int left = end - begin;
    while (true) {
      const Part p = part(end - left, end);
      left -= p.n_rows;
      with(p);
      if (left == 0) return;
      dev::sync();
    }
  }

  QR_DEVICE void operator()() const {
    each_part([&](const Part& p) { attend(p); });
  }
};

// Of rows that are few in their sequences; of those with many; of heads wider than usual.
template <class Codec>
using AttendRow = AttendChunk<Codec, 1, 4, 4, kUsualHead>;
template <class Codec>
using AttendRows = AttendChunk<Codec, 8, 8, 1, kUsualHead>;
template <class Codec>
using AttendWideRow = AttendChunk<Codec, 1, 4, 4, kMaxHead>;
// Of keys whose last components are their values.
template <class Codec>
using AttendLatentRow = AttendChunk<Codec, 1, 4, 4, kMaxHead, true>;

}  // namespace quire::cuda
