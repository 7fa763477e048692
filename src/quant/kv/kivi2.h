// KV codec kivi2: two bits per component, packed a strip of 16 tokens at a time (docs/numerics.md, "Attention"). Keys
// have a step and a least number for each component over the strip's tokens, since what is large in a key is large in
// the same component of all keys; values for each 32 components of a token. Less than a quarter of the memory of f16.
//   strip of keys    of each 4 components: [4] pairs, [16] bytes: components 4j (low bits) … 4j + 3 of 16 keys
//   strip of values  of each 2 tokens, of each 32 components: [16] bytes: components d and d + 16 of the first token
//                    (low bits), then of the second, [2] pairs
// A pair is two BF16, least and step (high half). A number n in 0 … 3 stands for n · step + least. Rows of the strip
// that a row lies in are as f16 has them until the strip is full: that a token's key is packed with those behind it
// changes nothing of what is computed before these are there. docs/kv.md has what it costs.
// Source: Liu et al., "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache" (2024), there over 32 tokens.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "quant/f16.h"
#include "quant/kv/f16.h"
#include "quant/kv_codec.h"
#include "quant/kv_unscaled.h"

namespace quire {

struct KvKIVI2 : KvUnscaled {
  static constexpr std::string_view kName = "kivi2", kKeys = kName, kValues = kName;
  static constexpr bool kPacks = true, kForResearch = true, kValuesInKeys = false;
  using Tail = KvF16;
  static constexpr int64_t k_row_bytes(int dim) { return (int64_t{dim} + 7) / 8 * 4; }
  static constexpr int64_t v_row_bytes(int dim) { return (int64_t{dim} + 31) / 32 * 12; }
  static constexpr int64_t row_bytes(int dim) { return k_row_bytes(dim); }

  static QR_INLINE void pack_k(const float* rows, int dim, std::byte* strip) {
    for (int64_t i = 0; i < k_row_bytes(dim) * kStripTokens; ++i) strip[i] = std::byte{0};
    for (int d = 0; d < dim; ++d) {
      const Pair pair = pair_of(rows + d, kStripTokens, dim);
      std::byte* at = strip + d / 4 * kKeyBytes;
      store_as(at + d % 4 * 4, pair.stored());
      for (int t = 0; t < kStripTokens; ++t)
        at[kKeyPairs + t] |= static_cast<std::byte>(pair.number(rows[t * dim + d]) << d % 4 * 2);
    }
  }
  static QR_INLINE void get_k(const std::byte* strip, int t, int dim, float* row) {
    for (int d = 0; d < dim; ++d) {
      const std::byte* at = strip + d / 4 * kKeyBytes;
      row[d] = Pair(load_as<uint32_t>(at + d % 4 * 4)).value(at[kKeyPairs + t], d % 4 * 2);
    }
  }
  static QR_INLINE void pack_v(const float* rows, int dim, std::byte* strip) {
    for (int64_t i = 0; i < v_row_bytes(dim) * kStripTokens; ++i) strip[i] = std::byte{0};
    for (int t = 0; t < kStripTokens; ++t) {
      for (int d = 0; d < dim; d += kRun) {
        const int n = dim - d < kRun ? dim - d : kRun;
        const float* run = rows + t * dim + d;
        const Pair pair = pair_of(run, n, 1);
        std::byte* at = value_at(strip, t, dim, d);
        store_as(at + 16 + t % 2 * 4, pair.stored());
        for (int i = 0; i < n; ++i)
          at[i % 16] |= static_cast<std::byte>(pair.number(run[i]) << (t % 2 * 4 + i / 16 * 2));
      }
    }
  }
  static QR_INLINE void get_v(const std::byte* strip, int t, int dim, float* row) {
    for (int d = 0; d < dim; ++d) {
      const std::byte* at = value_at(strip, t, dim, d);
      row[d] = Pair(load_as<uint32_t>(at + 16 + t % 2 * 4)).value(at[d % 16], t % 2 * 4 + d / 16 % 2 * 2);
    }
  }
  template <class V>
  static QR_INLINE typename V::F load_k(const std::byte* strip, int d) {
    const std::byte* at = strip + d / 4 * kKeyBytes;
    return numbers<V>(at + kKeyPairs, d % 4 * 2, load_as<uint32_t>(at + d % 4 * 4));
  }
  template <class V>
  static QR_INLINE typename V::F load_v(const std::byte* strip, int t, int dim, int d) {
    const std::byte* at = value_at(strip, t, dim, d);
    return numbers<V>(at, t % 2 * 4 + d / 16 % 2 * 2, load_as<uint32_t>(at + 16 + t % 2 * 4));
  }

 private:
  static constexpr int kRun = 32;                       // components of a value that have a pair together
  static constexpr int64_t kKeyPairs = 16;              // bytes of 4 components' pairs
  static constexpr int64_t kKeyBytes = kKeyPairs + 16;  // of 4 components of a strip
  static constexpr int64_t kValueBytes = 16 + 2 * 4;    // of 32 components of two tokens

  struct Pair {
    float step, least, inverse = 0;
    explicit Pair(uint32_t bits)
        : step(std::bit_cast<float>(bits & 0xffff0000U)), least(std::bit_cast<float>(bits << 16)) {}
    uint32_t stored() const {
      return (std::bit_cast<uint32_t>(step) & 0xffff0000U) | std::bit_cast<uint32_t>(least) >> 16;
    }
    // The nearest, of two as near the upper one. A NaN reaches nothing.
    int number(float x) const {
      const float steps = (x - least) * inverse;
      return (steps >= 0.5F ? 1 : 0) + (steps >= 1.5F ? 1 : 0) + (steps >= 2.5F ? 1 : 0);
    }
    float value(std::byte bits, int shift) const {
      return __builtin_fmaf(static_cast<float>(static_cast<int>(bits) >> shift & 3), step, least);
    }
  };

  static QR_INLINE Pair pair_of(const float* x, int n, int64_t stride) {
    float low = x[0], high = x[0];
    bool is_finite = true;
    for (int i = 0; i < n; ++i) {
      const float v = x[i * stride];
      is_finite = is_finite && v - v == 0.0F;
      low = v < low ? v : low;
      high = v > high ? v : high;
    }
    if (!is_finite) return Pair(0x7fc07fc0U);
    const auto half = [](float v) { return static_cast<uint32_t>(f32_to_bf16(v)); };
    const float least = bf16_to_f32(static_cast<uint16_t>(half(low)));
    Pair out(half((high - least) * (1.0F / 3.0F)) << 16 | half(low));
    out.inverse = out.step > 0.0F ? 1.0F / out.step : 0.0F;
    return out;
  }
  template <class Byte>
  static QR_INLINE Byte* value_at(Byte* strip, int t, int dim, int d) {
    return strip + (t / 2 * ((int64_t{dim} + 31) / 32) + d / 32) * kValueBytes;
  }
  template <class V>
  static QR_INLINE typename V::F numbers(const std::byte* bytes, int shift, uint32_t pair) {
    using Words [[gnu::vector_size(16), gnu::may_alias]] = uint16_t;
    alignas(16) std::byte two_bits[16];
    Words words;
    __builtin_memcpy(&words, bytes, sizeof words);
    words = (words >> static_cast<uint16_t>(shift)) & 0x0303;
    __builtin_memcpy(two_bits, &words, sizeof words);
    return V::fma(V::load_i8(two_bits), V::set1(std::bit_cast<float>(pair & 0xffff0000U)),
                  V::set1(std::bit_cast<float>(pair << 16)));
  }
};

}  // namespace quire
