// The vector vocabulary in plain loops over 16 lanes: the portable fallback, and the yardstick that the others must
// equal bit for bit. See isa/avx512/vec.h.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/f16.h"

namespace quire {
namespace {

struct Vec {
  struct F {
    float v[16];
  };
  struct I {
    int32_t v[16];
  };
  struct U {
    uint8_t v[64];
  };

  template <class Fn>
  static F each(Fn fn) {
    F out;
    for (int i = 0; i < 16; ++i) out.v[i] = fn(i);
    return out;
  }
  static constexpr int kTilePanels = 1, kTileRows = 1;  // register tile of linear
  static constexpr int kFloatTileRows = kTileRows;
  static constexpr int kFewPanels = 1;
  static constexpr bool kPrefetches = false;
  static constexpr int kChains = 1;
  static constexpr int kAttentionRows = 8;
  static constexpr int kSideBySide = 1;
  static constexpr int kAttentionSums = 8;

  static F zero() { return set1(0.0F); }
  static F set1(float x) {
    return each([&](int) { return x; });
  }
  static F load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  static F load_n(const float* p, int n) {
    return each([&](int i) { return i < n ? p[i] : 0.0F; });
  }
  static void store(float* p, F x) { std::memcpy(p, x.v, sizeof x.v); }
  static void store_n(float* p, F x, int n) { std::memcpy(p, x.v, sizeof(float) * static_cast<size_t>(n)); }
  static F load_f16(const uint16_t* p) {
    return each([&](int i) { return f16_to_f32(p[i]); });
  }
  static F load_bf16(const uint16_t* p) {
    return each([&](int i) { return bf16_to_f32(p[i]); });
  }
  static void load_pairs(const float* p, F* two) {
    for (int odd = 0; odd < 2; ++odd) two[odd] = each([&](int i) { return p[2 * i + odd]; });
  }
  static void store_pairs(float* p, const F* two) {
    for (int i = 0; i < 32; ++i) p[i] = two[i % 2].v[i / 2];
  }
  static void load_bf16_pairs(const uint16_t* p, F* two) {
    for (int odd = 0; odd < 2; ++odd) two[odd] = each([&](int i) { return bf16_to_f32(p[2 * i + odd]); });
  }
  static constexpr int kBf16PerFloat = 1;
  static void store_bf16(float* p, F x) {
    for (int i = 0; i < 16; ++i) p[i] = bf16_to_f32(f32_to_bf16_flushed(x.v[i]));
  }

  static F add(F a, F b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  static F sub(F a, F b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
  }
  static F mul(F a, F b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }
  static F div(F a, F b) {
    return each([&](int i) { return a.v[i] / b.v[i]; });
  }
  static F fma(F a, F b, F c) {
    return each([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
  }
  static F max(F a, F b) {
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F min(F a, F b) {
    return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F abs(F a) {
    return each([&](int i) { return __builtin_fabsf(a.v[i]); });
  }
  static F select_lt(F x, F bound, F yes, F no) {
    return each([&](int i) { return x.v[i] < bound.v[i] ? yes.v[i] : no.v[i]; });
  }
  static F inside(int lo, int hi, F a, F b) {
    return each([&](int i) { return i >= lo && i < hi ? a.v[i] : b.v[i]; });
  }
  static F zero_if_lt(F x, F bound, F a) {
    return each([&](int i) { return x.v[i] < bound.v[i] ? 0.0F : a.v[i]; });
  }
  static F times_exp2(F a, F /*n*/, F t) {
    return each([&](int i) { return a.v[i] * std::bit_cast<float>((std::bit_cast<uint32_t>(t.v[i]) + 127U) << 23); });
  }
  static float sum(F x) {
    for (int half = 8; half >= 1; half /= 2) {
      for (int i = 0; i < half; ++i) x.v[i] += x.v[i + half];
    }
    return x.v[0];
  }
  static float max_of(F x) {
    for (int half = 8; half >= 1; half /= 2) {
      for (int i = 0; i < half; ++i) x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
    }
    return x.v[0];
  }

  static U load_bytes(const std::byte* p) {
    U out;
    std::memcpy(out.v, p, sizeof out.v);
    return out;
  }
  template <int kZero, int kMax>
  struct Dot {
    void start(int32_t activation_sum) {
      for (int32_t& s : sum.v) s = -kZero * activation_sum;
    }
    template <int kQuad, int kQuads>
    void add(const U& w, int32_t quad) {
      int8_t x[4];
      std::memcpy(x, &quad, sizeof x);
      for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 4; ++j) sum.v[i] += w.v[4 * i + j] * x[j];
      }
    }
    I total(int32_t /*activation_sum*/) const { return sum; }

   private:
    I sum;
  };
  template <class Fn>
  static U each_byte(Fn fn) {
    U out;
    for (int i = 0; i < 64; ++i) out.v[i] = static_cast<uint8_t>(fn(i));
    return out;
  }
  template <int kShift, int kMask>
  static U bits(U x) {
    return each_byte([&](int i) { return (kShift > 0 ? x.v[i] >> kShift : x.v[i] << -kShift) & kMask; });
  }
  static U either(U x, U y) {
    return each_byte([&](int i) { return x.v[i] | y.v[i]; });
  }
  template <uint64_t kLowWord, uint64_t kHighWord>
  static U look_up(U x) {
    return each_byte([&](int i) { return (x.v[i] < 8 ? kLowWord : kHighWord) >> (8 * (x.v[i] % 8)) & 0xff; });
  }
  static F load_i8(const std::byte* p) {
    return each([&](int i) { return static_cast<float>(static_cast<int8_t>(p[i])); });
  }
  static F load_e4m3(const std::byte* p) {
    return each([&](int i) { return e4m3_to_f32(static_cast<uint8_t>(p[i])); });
  }
  template <int kShift>
  static F load_nibbles(const std::byte* p) {
    return each([&](int i) { return static_cast<float>(static_cast<uint8_t>(p[i]) >> kShift & 15); });
  }
  template <int kShift>
  static F load_centred_nibbles(const std::byte* p) {
    return each([&](int i) { return static_cast<float>((static_cast<uint8_t>(p[i]) >> kShift & 15) - 8); });
  }
  static F to_float(I x) {
    return each([&](int i) { return static_cast<float>(x.v[i]); });
  }
  static bool has_nan(F x) {
    bool any = false;
    for (const float v : x.v) any |= v != v;
    return any;
  }
  struct Sums {
    int32_t first, last;
  };
  static Sums round_store(F low, F high, int8_t* to) { return {round_some(low, to), round_some(high, to + 16)}; }

 private:
  static int32_t round_some(F x, int8_t* to) {
    int32_t total = 0;
    for (int i = 0; i < 16; ++i) {
      // |x| ≤ 127, so adding 1.5·2^23 rounds to an integer, ties to even.
      const float magic = x.v[i] + 12582912.0F;
      const int32_t q = static_cast<int32_t>(std::bit_cast<uint32_t>(magic) - 0x4b400000U);
      to[i] = static_cast<int8_t>(q);
      total += q;
    }
    return total;
  }
};

}  // namespace
}  // namespace quire
