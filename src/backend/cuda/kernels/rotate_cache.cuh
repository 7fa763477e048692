// Keys and values into the cache, of codecs that keep each number by itself, and queries and keys rotated before. A
// unit of a head is a pair that is rotated, or a component behind them that is not; without a rotation all are of
// these.
#pragma once
#include "backend/cuda/kernels/cache.cuh"

namespace quire::cuda {

// Column i of a row: units of the query heads, of the KV heads, then components of values.
template <class Codec>
struct RotateAndCache {
  Cache<Codec> cache;
  Rows<float> q;
  Rows<const float> k, v;
  const int32_t* slots;
  const float* table;  // [rows, n_freq, 2]
  int n_heads, n_kv_heads, n_freq;
  bool is_interleaved;

  QR_DEVICE int units() const { return cache.k_dim - n_freq; }

  struct Turned {
    float first, second;
  };
  QR_DEVICE Turned turned(int64_t row, int f, float a, float b) const {
    const float c = dev::load(table + (row * n_freq + f) * 2), s = dev::load(table + (row * n_freq + f) * 2 + 1);
    return {dev::sub(dev::mul(a, c), dev::mul(b, s)), dev::add(dev::mul(a, s), dev::mul(b, c))};
  }

  QR_DEVICE void turn_query(int64_t row, int head, int unit) const {
    if (unit >= n_freq) return;
    float* first = q.row(row) + int64_t{head} * cache.k_dim + (is_interleaved ? 2 * unit : unit);
    float* second = first + (is_interleaved ? 1 : n_freq);
    const Turned to = turned(row, unit, dev::load(first), dev::load(second));
    dev::store(first, to.first);
    dev::store(second, to.second);
  }

  QR_DEVICE void keep_key(int64_t row, int head, int unit) const {
    const int64_t slot = dev::load(slots + row), block = slot / cache.block_tokens;
    const int in_block = static_cast<int>(slot % cache.block_tokens);
    auto* to = cache.key(cache.keys(block, in_block, head), in_block);
    const float* from = k.row(row) + int64_t{head} * cache.k_dim;
    if (unit >= n_freq) {
      const int d = unit + n_freq;
      return dev::store(to + d * 16, Codec().encoded(dev::load(from + d)));
    }
    const int first = is_interleaved ? 2 * unit : unit, second = first + (is_interleaved ? 1 : n_freq);
    const Turned pair = turned(row, unit, dev::load(from + first), dev::load(from + second));
    dev::store(to + first * 16, Codec().encoded(pair.first));
    dev::store(to + second * 16, Codec().encoded(pair.second));
  }

  QR_DEVICE void keep_value(int64_t row, int i) const {
    const int head = i / cache.v_dim, d = i % cache.v_dim;
    const int64_t slot = dev::load(slots + row), block = slot / cache.block_tokens;
    const int in_block = static_cast<int>(slot % cache.block_tokens);
    dev::store(cache.value(cache.values(block, in_block, head), in_block) + d,
               Codec().encoded(dev::load(v.row(row) + int64_t{head} * cache.v_dim + d)));
  }

  QR_DEVICE void of(int64_t row, int i) const {
    const int of_queries = n_heads * units(), of_keys = n_kv_heads * units();
    if (i < of_queries) return turn_query(row, i / units(), i % units());
    i -= of_queries;
    if (i < of_keys) return keep_key(row, i / units(), i % units());
    keep_value(row, i - of_keys);
  }
};

}  // namespace quire::cuda
