// Attention over the paged cache (docs/numerics.md, "Attention"). AttendChunk makes (m, l, o) of a chunk of 256 keys
// for up to four heads that share a KV head and one row; AttendJoin merges a row's chunks in position order. Rows of a
// prompt and of decoding are the same to it. Limits: heads of 576 components.
#pragma once
#include "backend/cuda/kernels/cache.cuh"

namespace quire::cuda {

inline constexpr int kChunk = 256;        // keys
inline constexpr int kHeadsTogether = 4;  // of one KV head

// Which keys a row sees, and where they are.
struct RowsKeys {
  const int32_t* cu_q;    // [n_seqs + 1]
  const int32_t* blocks;  // [n_seqs, max_blocks]
  const int32_t *first_key, *end_key;
  int n_seqs, max_blocks, window;

  QR_DEVICE const int32_t* blocks_of(int row) const {
    int lo = 0, hi = n_seqs;  // the last sequence that begins at or before the row
    while (hi - lo > 1) {
      const int mid = (lo + hi) / 2;
      if (dev::load(cu_q + mid) <= row) {
        lo = mid;
      } else {
        hi = mid;
      }
    }
    return blocks + int64_t{lo} * max_blocks;
  }
  QR_DEVICE int first(int row) const {
    const int from = dev::load(first_key + row);
    const int oldest = window > 0 ? end(row) - window : 0;
    return oldest > from ? oldest : from;
  }
  QR_DEVICE int end(int row) const { return dev::load(end_key + row); }
};

// Of each (row, head, chunk): o [v_dim], m, l. l is 0 where the row sees no key of the chunk.
struct States {
  float* data;
  int n_heads, n_chunks, v_dim, first_row;
  QR_DEVICE float* of(int row, int head, int chunk) const {
    return data + ((int64_t{row - first_row} * n_heads + head) * n_chunks + chunk) * (v_dim + 2);
  }
};

// Grid: chunks, KV heads × runs of kHeadsTogether of their heads, rows from states.first_row on.
template <class Codec>
struct AttendChunk {
  static constexpr int kThreads = kChunk, kWarps = kThreads / 32;
  static constexpr int kScoresAt = kHeadsTogether * kMaxHead * 4, kLargestAt = kScoresAt + kHeadsTogether * kChunk * 4;
  static constexpr int kScaledAt = kLargestAt + kHeadsTogether * kWarps * 4;  // weights times values' scales
  static constexpr int kSharedBytes = kScaledAt + (Codec::kIsScaled ? kHeadsTogether * kChunk * 4 : 0);
  static constexpr int kValueWeightsAt = Codec::kIsScaled ? kScaledAt : kScoresAt;

  Cache<Codec> cache;
  RowsKeys keys;
  Rows<const float> q;
  States states;
  int heads_per_kv;  // query heads that share a KV head
  float scale, soft_cap;
  Signs signs;  // of codecs that rotate keys

  struct Part {
    const int32_t* blocks;
    int kv_head, head, n_heads;  // the first head of n_heads
    int row, chunk, lo, hi;      // keys within the chunk
  };

  QR_DEVICE Part part() const {
    const int n_runs = (heads_per_kv + kHeadsTogether - 1) / kHeadsTogether;
    Part p;
    p.row = states.first_row + dev::block_z();
    p.chunk = dev::block_x() * kChunk;
    p.kv_head = dev::block_y() / n_runs;
    const int begin = dev::block_y() % n_runs * kHeadsTogether;
    p.head = p.kv_head * heads_per_kv + begin;
    p.n_heads = heads_per_kv - begin < kHeadsTogether ? heads_per_kv - begin : kHeadsTogether;
    p.blocks = keys.blocks_of(p.row);
    p.lo = keys.first(p.row) - p.chunk > 0 ? keys.first(p.row) - p.chunk : 0;
    p.hi = keys.end(p.row) - p.chunk < kChunk ? keys.end(p.row) - p.chunk : kChunk;
    return p;
  }

  QR_DEVICE float* state(const Part& p, int h) const { return states.of(p.row, p.head + h, dev::block_x()); }

  // The thread's key against every head: score, or −∞ where the row may not see it; and each warp's largest.
  QR_DEVICE void score(const Part& p, float (&s)[kHeadsTogether]) const {
    const int t = dev::thread();
    const bool is_seen = t >= p.lo && t < p.hi;
    const dev::Shared<float> query(0), largest(kLargestAt);
    for (int h = 0; h < kHeadsTogether; ++h) s[h] = 0.0F;
    if (is_seen) {
      const int position = p.chunk + t;
      const int64_t block = dev::load(p.blocks + position / cache.block_tokens);
      const int in_block = position % cache.block_tokens;
      uint8_t* strip = cache.keys(block, in_block, p.kv_head);
      const typename Codec::Number* key = cache.key(strip, in_block);
      for (int d = 0; d < cache.k_dim; ++d) {
        const float k = Codec().decoded(dev::load(key + d * 16));
        for (int h = 0; h < kHeadsTogether; ++h) {
          if (h < p.n_heads) s[h] = dev::fma(k, query[h * cache.k_dim + d], s[h]);
        }
      }
      if constexpr (Codec::kIsScaled) {
        const float k_scale = dev::load(cache.scale(strip, in_block));
        for (int h = 0; h < kHeadsTogether; ++h) s[h] = dev::mul(s[h], k_scale);
      }
    }
    for (int h = 0; h < kHeadsTogether; ++h) {
      s[h] = dev::mul(s[h], scale);
      if (soft_cap > 0.0F) s[h] = soft_capped(s[h], soft_cap);
      if (!is_seen) s[h] = -kInfinity;
      float m = s[h] > -kInfinity ? s[h] : -kInfinity;  // no NaN
      for (int n = 16; n > 0; n /= 2) {
        const float other = dev::shuffle_xor(m, n);
        m = other > m ? other : m;
      }
      if (t % 32 == 0) largest[h * kWarps + t / 32] = m;
    }
  }

  // Of the key number t of the chunk.
  QR_DEVICE float value_scale(const Part& p, int t) const {
    const int in_block = (p.chunk + t) % cache.block_tokens;
    const int64_t block = dev::load(p.blocks + (p.chunk + t) / cache.block_tokens);
    return dev::load(cache.scale(cache.values(block, in_block, p.kv_head), in_block));
  }

  QR_DEVICE void weigh(const Part& p, const float (&s)[kHeadsTogether]) const {
    const int t = dev::thread();
    const dev::Shared<float> weights(kScoresAt), scaled(kScaledAt), largest(kLargestAt);
    const bool is_seen = t >= p.lo && t < p.hi;
    for (int h = 0; h < p.n_heads; ++h) {
      float m = largest[h * kWarps];
      for (int i = 1; i < kWarps; ++i) {
        const float other = largest[h * kWarps + i];
        m = other > m ? other : m;
      }
      const float weight = is_seen ? exp_of(dev::sub(s[h], m)) : 0.0F;
      weights[h * kChunk + t] = weight;
      if constexpr (Codec::kIsScaled) {
        if (is_seen) scaled[h * kChunk + t] = dev::mul(weight, value_scale(p, t));
      }
      if (t == 0) dev::store(state(p, h) + cache.v_dim, m);
    }
  }

  // A warp a head: position t in lane t mod 16, then the fold.
  QR_DEVICE void sum_weights(const Part& p) const {
    const int h = dev::thread() / 32, lane = dev::thread() % 16;
    if (h >= p.n_heads) return;
    const dev::Shared<float> weights(kScoresAt);
    float l = 0.0F;
    for (int i = p.lo / 16 * 16 + lane; i < p.hi; i += 16) l = dev::add(l, weights[h * kChunk + i]);
    l = folded(l);
    if (dev::thread() % 32 == 0) dev::store(state(p, h) + cache.v_dim + 1, l);
  }

  QR_DEVICE void sum_values(const Part& p) const {
    const dev::Shared<float> weights(kValueWeightsAt);
    for (int i = dev::thread(); i < p.n_heads * cache.v_dim; i += kThreads) {
      const int h = i / cache.v_dim, d = i % cache.v_dim;
      float o = 0.0F;
      for (int t = p.lo; t < p.hi; ++t) {
        const int position = p.chunk + t;
        const int64_t block = dev::load(p.blocks + position / cache.block_tokens);
        const int in_block = position % cache.block_tokens;
        const auto* value = cache.value(cache.values(block, in_block, p.kv_head), in_block);
        o = dev::fma(Codec().decoded(dev::load(value + d)), weights[h * kChunk + t], o);
      }
      dev::store(state(p, h) + d, o);
    }
  }

  QR_DEVICE void operator()() const {
    const int t = dev::thread();
    const Part p = part();
    if (p.hi <= p.lo) {
      if (t < p.n_heads) dev::store(state(p, t) + cache.v_dim + 1, 0.0F);
      return;
    }
    const dev::Shared<float> query(0);
    for (int i = t; i < p.n_heads * cache.k_dim; i += kThreads) {
      const float number = dev::load(q.row(p.row) + int64_t{p.head} * cache.k_dim + i);
      query[i] = Codec::kIsScaled ? signs.signed_by(number, i % cache.k_dim) : number;
    }
    if constexpr (Codec::kIsScaled) {
      rotate_in_place<kThreads>(query, p.n_heads, cache.k_dim);
    } else {
      dev::sync();
    }
    float s[kHeadsTogether];
    score(p, s);
    dev::sync();
    weigh(p, s);
    dev::sync();
    sum_weights(p);
    sum_values(p);
  }
};

// Grid: heads, rows from states.first_row on. A thread a component.
struct AttendJoin {
  static constexpr int kThreads = 128, kSharedBytes = 0;
  States states;
  Rows<float> out;
  const float* sinks;  // [n_heads] or null

  struct Running {
    float m, l, worth, added;  // what the sum so far and the next one are worth in both
    QR_DEVICE void merge(float m2, float l2) {
      const bool is_first = l == 0.0F;
      const float both = m2 > m ? m2 : m;
      worth = exp_of(dev::sub(m, both));
      added = exp_of(dev::sub(m2, both));
      l = is_first ? l2 : dev::fma(l, worth, dev::mul(l2, added));
      m = is_first ? m2 : both;
    }
  };

  QR_DEVICE void operator()() const {
    const int head = dev::block_x(), row = states.first_row + dev::block_y(), v_dim = states.v_dim;
    for (int d = dev::thread(); d < v_dim; d += kThreads) {
      Running sum{-kInfinity, 0.0F, 0.0F, 0.0F};
      float o = 0.0F;
      for (int c = 0; c < states.n_chunks; ++c) {
        const float* state = states.of(row, head, c);
        const float l = dev::load(state + v_dim + 1);
        if (l == 0.0F) continue;
        const bool is_first = sum.l == 0.0F;
        sum.merge(dev::load(state + v_dim), l);
        const float mine = dev::load(state + d);
        o = is_first ? mine : dev::fma(o, sum.worth, dev::mul(mine, sum.added));
      }
      if (sinks != nullptr) {
        sum.merge(dev::load(sinks + head), 1.0F);
        o = dev::mul(o, sum.worth);
      }
      dev::store(out.row(row) + int64_t{head} * v_dim + d, dev::mul(o, dev::div(1.0F, sum.l)));
    }
  }
};

}  // namespace quire::cuda
