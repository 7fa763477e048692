// Whole strips of a cache packed into two bits a number (quant/kv/kivi2.h), from where their rows are as halves until
// then.
#pragma once
#include "backend/cuda/kernels/cache.cuh"

namespace quire::cuda {

// What numbers between a least and a largest one are packed with, as bits; NaN where one was not finite.
struct PackedRange {
  float low, high;
  bool is_finite = true;
  QR_DEVICE explicit PackedRange(float first) : low(first), high(first) {}
  QR_DEVICE void take(float x) {
    is_finite = is_finite && dev::sub(x, x) == 0.0F;
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  QR_DEVICE uint32_t pair() const {
    if (!is_finite) return 0x7fc07fc0U;
    const uint32_t least = nearest_bf16(dev::as_bits(low)) >> 16;
    const float step = dev::mul(dev::sub(high, least_of(least)), 1.0F / 3.0F);
    return (nearest_bf16(dev::as_bits(step)) & 0xffff0000U) | least;
  }
};
// Numbers by such a pair.
struct Packing {
  uint32_t pair;
  float inverse;
  QR_DEVICE explicit Packing(uint32_t bits) : pair(bits), inverse(0.0F) {
    if (step_of(bits) > 0.0F) inverse = dev::div(1.0F, step_of(bits));
  }
  QR_DEVICE uint32_t number(float x) const {
    const float steps = dev::mul(dev::sub(x, least_of(pair)), inverse);
    return (steps >= 0.5F ? 1U : 0U) + (steps >= 1.5F ? 1U : 0U) + (steps >= 2.5F ? 1U : 0U);
  }
};

// A thread makes what four components of a strip's keys become, or 32 of the values of two of its tokens. Row i does
// something where its slot is the last of a strip. Columns: KV heads' runs of keys, then their runs of values.
struct PackStrips {
  Cache packed, tail;
  const int32_t *slots, *tails;
  int n_kv_heads;
  int key_runs, value_runs;  // of a head's strip

  static constexpr int key_runs_of(int k_dim) { return (k_dim + 7) / 8 * 2; }
  static constexpr int value_runs_of(int v_dim) { return (v_dim + 31) / 32 * 8; }

  struct Strip {
    int64_t block;
    int in_block;
  };
  QR_DEVICE Strip strip_of(const int32_t* of, int64_t row, int block_tokens) const {
    const int32_t slot = dev::load(of + row);
    return {slot / block_tokens, slot % block_tokens};
  }
  QR_DEVICE float read(const uint8_t* from, int at) const {
    return dev::to_float(dev::load(reinterpret_cast<const uint16_t*>(from) + at));
  }

  QR_DEVICE void pack_keys(const uint8_t* from, uint8_t* to, int run) const {
    uint32_t words[4] = {};  // of 16 tokens a byte each
    to += run * 32;
    for (int i = 0; i < 4; ++i) {
      const int d = run * 4 + i;
      uint32_t pair = 0;
      if (d < packed.k_dim) {
        PackedRange range(read(from, d * 16));
        for (int t = 0; t < 16; ++t) range.take(read(from, d * 16 + t));
        pair = range.pair();
        const Packing packing(pair);
        QR_UNROLL
        for (int t = 0; t < 16; ++t) words[t / 4] |= packing.number(read(from, d * 16 + t)) << (t % 4 * 8 + i * 2);
      }
      dev::store(reinterpret_cast<uint32_t*>(to) + i, pair);
    }
    QR_UNROLL
    for (int i = 0; i < 4; ++i) dev::store(reinterpret_cast<uint32_t*>(to + 16) + i, words[i]);
  }

  QR_DEVICE void pack_values(const uint8_t* from, uint8_t* to, int run) const {
    const int n_runs = (packed.v_dim + 31) / 32, token = run / n_runs * 2, d = run % n_runs * 32;
    const int n = packed.v_dim - d < 32 ? packed.v_dim - d : 32;
    uint32_t words[4] = {};  // of 16 components, and those behind them, a byte each
    to += run * 24;
    for (int i = 0; i < 2; ++i) {
      const int first = (token + i) * packed.v_dim + d;
      PackedRange range(read(from, first));
      for (int k = 0; k < n; ++k) range.take(read(from, first + k));
      const Packing packing(range.pair());
      QR_UNROLL
      for (int k = 0; k < 32; ++k) {
        const uint32_t number = k < n ? packing.number(read(from, first + k)) : 0U;
        words[k % 16 / 4] |= number << (k % 4 * 8 + i * 4 + k / 16 * 2);
      }
      dev::store(reinterpret_cast<uint32_t*>(to + 16) + i, packing.pair);
    }
    QR_UNROLL
    for (int i = 0; i < 4; ++i) dev::store(reinterpret_cast<uint32_t*>(to) + i, words[i]);
  }

  QR_DEVICE void of(int64_t row, int i) const {
    const Strip to = strip_of(slots, row, packed.block_tokens), from = strip_of(tails, row, tail.block_tokens);
    if (to.in_block % 16 < 15) return;
    if (i < n_kv_heads * key_runs) {
      const int head = i / key_runs;
      return pack_keys(tail.keys(from.block, from.in_block, head), packed.keys(to.block, to.in_block, head),
                       i % key_runs);
    }
    i -= n_kv_heads * key_runs;
    const int head = i / value_runs;
    pack_values(tail.values(from.block, from.in_block, head), packed.values(to.block, to.in_block, head),
                i % value_runs);
  }
};

}  // namespace quire::cuda
