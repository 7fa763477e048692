// The paged cache as its codecs store it (quant/kv_codec.h), and rows on their way into it. Strips of 16 tokens: keys
// by component, values token by token; codecs with scales have 16 of them, floats, in front of a strip.
#pragma once
#include "backend/cuda/kernels/elementwise.cuh"

namespace quire::cuda {

inline constexpr int kMaxHead = 576;  // components

// `read` decodes kN numbers from a byte of shared memory on, kN a power of two up to 8, the byte a multiple of theirs.
struct CodecF32 {
  using Number = float;
  static constexpr bool kIsScaled = false;
  QR_DEVICE int64_t row_bytes(int dim) const { return int64_t{dim} * 4; }
  QR_DEVICE float encoded(float x) const { return x; }
  template <int kN>
  QR_DEVICE void read(int at, float (&out)[kN]) const {
    constexpr int kEach = kN < 4 ? kN : 4;
    QR_UNROLL
    for (int i = 0; i < kN / kEach; ++i) {
      const Pack<float, kEach> pack = dev::Shared<Pack<float, kEach>>(at)[i];
      QR_UNROLL
      for (int j = 0; j < kEach; ++j) out[i * kEach + j] = pack.x[j];
    }
  }
};
struct CodecF16 {
  using Number = uint16_t;
  static constexpr bool kIsScaled = false;
  QR_DEVICE int64_t row_bytes(int dim) const { return int64_t{dim} * 2; }
  QR_DEVICE uint16_t encoded(float x) const { return dev::to_half(x); }
  template <int kN>
  QR_DEVICE void read(int at, float (&out)[kN]) const {
    const Pack<uint16_t, kN> pack = dev::Shared<Pack<uint16_t, kN>>(at)[0];
    QR_UNROLL
    for (int j = 0; j < kN; ++j) out[j] = dev::to_float(pack.x[j]);
  }
};
// A scale a row; keys are rotated, and queries with them.
struct CodecQ8 {
  using Number = int8_t;
  static constexpr bool kIsScaled = true;
  QR_DEVICE int64_t row_bytes(int dim) const { return int64_t{dim + 3} / 4 * 4 + 4; }
  // 2²³ + 128 + a number, exact, has the number plus 128 in its low byte.
  template <int kN>
  QR_DEVICE void read(int at, float (&out)[kN]) const {
    constexpr int kEach = kN < 4 ? kN : 4;
    using Word = PickWord<kEach>;
    const Pack<typename Word::Type, kN / kEach> pack = dev::Shared<Pack<typename Word::Type, kN / kEach>>(at)[0];
    QR_UNROLL
    for (int i = 0; i < kN / kEach; ++i) {
      const uint32_t word = pack.x[i] ^ 0x80808080U;
      QR_UNROLL
      for (uint32_t j = 0; j < kEach; ++j) {
        out[i * kEach + static_cast<int>(j)] =
            dev::sub(dev::as_float(dev::pick_bytes(word, 0x4b000000U, 0x7440U + j)), 8388736.0F);
      }
    }
  }

 private:
  template <int kBytes>
  struct PickWord {
    using Type = uint32_t;
  };
};
template <>
struct CodecQ8::PickWord<2> {
  using Type = uint16_t;
};
template <>
struct CodecQ8::PickWord<1> {
  using Type = uint8_t;
};

template <class Codec>
struct Cache {
  using Number = typename Codec::Number;
  uint8_t* base;  // of the layer's claim in block 0
  int64_t block_bytes;
  int block_tokens, k_dim, v_dim;

  // Of the strip with a token of the block.
  QR_DEVICE uint8_t* keys(int64_t block, int in_block, int64_t head) const {
    const int64_t k_bytes = Codec().row_bytes(k_dim), v_bytes = Codec().row_bytes(v_dim);
    return base + block * block_bytes + head * (k_bytes + v_bytes) * block_tokens + in_block / 16 * 16 * k_bytes;
  }
  QR_DEVICE uint8_t* values(int64_t block, int in_block, int64_t head) const {
    const int64_t k_bytes = Codec().row_bytes(k_dim), v_bytes = Codec().row_bytes(v_dim);
    return base + block * block_bytes + (head * (k_bytes + v_bytes) + k_bytes) * block_tokens +
           in_block / 16 * 16 * v_bytes;
  }
  // Component 0 of a token's; the next one is 16 further of keys.
  QR_DEVICE Number* key(uint8_t* strip, int in_block) const { return numbers(strip) + in_block % 16; }
  QR_DEVICE Number* value(uint8_t* strip, int in_block) const {
    return numbers(strip) + int64_t{in_block % 16} * v_dim;
  }
  QR_DEVICE float* scale(uint8_t* strip, int in_block) const { return reinterpret_cast<float*>(strip) + in_block % 16; }

 private:
  QR_DEVICE Number* numbers(uint8_t* strip) const {
    return reinterpret_cast<Number*>(strip + (Codec::kIsScaled ? 64 : 0));
  }
};

// The signs of a rotation (docs/numerics.md, "Attention"), bit d % 32 of word d / 32 that of component d.
struct Signs {
  uint32_t words[kMaxHead / 32];
  QR_DEVICE float signed_by(float x, int d) const {
    return dev::as_float(dev::as_bits(x) ^ (words[d / 32] >> (d % 32) & 1U) << 31);
  }
};

// Rounds of a rotation over n heads of `dim` components in shared memory. Every thread of the block calls; a barrier
// stands before each round and behind the last one.
template <int kThreads>
QR_DEVICE void rotate_in_place(const dev::Shared<float>& x, int n, int dim) {
  const int run = dim & -dim;
  for (int half = 1; half < run; half *= 2) {
    dev::sync();
    for (int i = dev::thread(); i < n * dim / 2; i += kThreads) {
      const int first = i / half * 2 * half + i % half;
      const float a = x[first], b = x[first + half];
      x[first] = dev::add(a, b);
      x[first + half] = dev::sub(a, b);
    }
  }
  dev::sync();
}

// Rows' keys and values into a cache of q8: a block a key or a value of one head and row. Grid: 2 · KV heads, of each
// the key and the value; rows. Limits: heads of 576 components.
struct CacheRowsQ8 {
  static constexpr int kThreads = 128, kWarps = kThreads / 32;
  static constexpr int kLargestAt = kMaxHead * 4, kSharedBytes = kLargestAt + kWarps * 4;
  Cache<CodecQ8> cache;
  Rows<const float> k, v;
  const int32_t* slots;
  Signs signs;

  // The largest magnitude's bits of the row in shared memory: as integers they order as floats do, NaN above all.
  QR_DEVICE uint32_t largest_of(const dev::Shared<float>& x, int dim) const {
    const dev::Shared<uint32_t> of_warps(kLargestAt);
    uint32_t largest = 0;
    for (int d = dev::thread(); d < dim; d += kThreads) {
      const uint32_t magnitude = dev::as_bits(x[d]) & 0x7fffffffU;
      largest = magnitude > largest ? magnitude : largest;
    }
    for (int n = 16; n > 0; n /= 2) {
      const uint32_t other = dev::shuffle_xor(largest, n);
      largest = other > largest ? other : largest;
    }
    if (dev::thread() % 32 == 0) of_warps[dev::thread() / 32] = largest;
    dev::sync();
    for (int i = 0; i < kWarps; ++i) {
      const uint32_t other = of_warps[i];
      largest = other > largest ? other : largest;
    }
    return largest;
  }

  QR_DEVICE void operator()() const {
    const bool is_key = dev::block_x() % 2 == 0;
    const int64_t head = dev::block_x() / 2, row = dev::block_y();
    const int dim = is_key ? cache.k_dim : cache.v_dim;
    const float* from = (is_key ? k : v).row(row) + head * dim;
    const float part = dev::div(1.0F, dev::whole(dim & -dim));  // a power of two
    const dev::Shared<float> x(0);
    for (int d = dev::thread(); d < dim; d += kThreads) {
      const float number = dev::load(from + d);
      x[d] = is_key ? signs.signed_by(dev::mul(number, part), d) : number;
    }
    if (is_key) rotate_in_place<kThreads>(x, 1, dim);  // of a value each thread reads what it wrote
    const uint32_t largest = largest_of(x, dim);
    const bool is_finite = largest < 0x7f800000U;
    const float amax = dev::as_float(largest);
    const bool counts = is_finite && amax >= 0x1p-120F;
    const float inverse = counts ? dev::div(127.0F, amax) : 0.0F;
    const int64_t slot = dev::load(slots + row), block = slot / cache.block_tokens;
    const int in_block = static_cast<int>(slot % cache.block_tokens);
    uint8_t* strip = is_key ? cache.keys(block, in_block, head) : cache.values(block, in_block, head);
    int8_t* to = is_key ? cache.key(strip, in_block) : cache.value(strip, in_block);
    for (int d = dev::thread(); d < dim; d += kThreads) {
      const float scaled = counts ? dev::mul(x[d], inverse) : 0.0F;
      const uint32_t rounded = dev::as_bits(dev::add(scaled, 12582912.0F));  // the integer in the low bits
      dev::store(to + d * (is_key ? 16 : 1), static_cast<int8_t>(rounded & 0xffU));
    }
    if (dev::thread() > 0) return;
    const float scale = counts ? dev::div(amax, 127.0F) : is_finite ? 0.0F : dev::as_float(0x7fc00000U);
    dev::store(cache.scale(strip, in_block), scale);
  }
};

}  // namespace quire::cuda
