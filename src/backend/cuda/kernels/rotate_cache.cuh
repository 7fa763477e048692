// Keys and values into the cache, of codecs that keep each number by itself, and queries and keys rotated before. A
// unit of a head is a pair that is rotated, or a component behind them that is not; without a rotation all are of
// these.
#pragma once
#include "backend/cuda/kernels/cache.cuh"

namespace quire::cuda {

// Column i of a row: units of the query heads, of the KV heads, then components of values.
template <class Codec>
struct RotateAndCache {
  using Form = typename Codec::Keys;  // and of values
  using Number = typename Form::Number;
  static constexpr int kTogether = Form::kTogether;
  Cache cache;
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

  // Where a row's strips are, and its number there.
  struct Place {
    int64_t block;
    int in_block;
    QR_DEVICE int token() const { return in_block % 16; }
  };
  QR_DEVICE Place place(int64_t row) const {
    const int64_t slot = dev::load(slots + row);
    return {slot / cache.block_tokens, static_cast<int>(slot % cache.block_tokens)};
  }

  // Beyond an odd number of components of pairs stands a zero.
  QR_DEVICE void put_key(Number* strip, int token, int d, float x) const {
    Number* word = strip + (d / kTogether * 16 + token) * kTogether;
    dev::store(word + d % kTogether, Form().encoded(x));
    if (kTogether == 2 && d % 2 == 0 && d + 1 == cache.k_dim) dev::store(word + 1, Number{0});
  }
  QR_DEVICE void keep_key(int64_t row, int head, int unit) const {
    const Place at = place(row);
    auto* to = reinterpret_cast<Number*>(cache.keys(at.block, at.in_block, head));
    const float* from = k.row(row) + int64_t{head} * cache.k_dim;
    if (unit >= n_freq) {
      const int d = unit + n_freq;
      return put_key(to, at.token(), d, dev::load(from + d));
    }
    const int first = is_interleaved ? 2 * unit : unit, second = first + (is_interleaved ? 1 : n_freq);
    const Turned pair = turned(row, unit, dev::load(from + first), dev::load(from + second));
    put_key(to, at.token(), first, pair.first);
    put_key(to, at.token(), second, pair.second);
  }

  QR_DEVICE void keep_value(int64_t row, int i) const {
    const int head = i / cache.v_dim, d = i % cache.v_dim;
    const Place at = place(row);
    auto* to = reinterpret_cast<Number*>(cache.values(at.block, at.in_block, head));
    const int pair = at.token() / kTogether, part = at.token() % kTogether;
    dev::store(to + (pair * cache.v_dim + d) * kTogether + part,
               Form().encoded(dev::load(v.row(row) + int64_t{head} * cache.v_dim + d)));
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
