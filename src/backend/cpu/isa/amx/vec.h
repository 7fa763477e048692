// The vector vocabulary on AVX-512 with AMX: 16 lanes as AVX-512 has them, and products of whole tiles.
#pragma once
#include "backend/cpu/isa/avx512/lanes.h"
#include "quant/f16.h"

namespace quire {
namespace {

struct Vec : Avx512Lanes {
  // Sums of 16 rows × 16 outputs over kDepth k, of int8 values, exact. Four of them, numbers 0 … 3, are under way at a
  // time. begin() before the first product, end() after the last, on the same thread. Sums that are not converted begin
  // at the bits of kMagic, whose last bit is worth 1: as a float it is then larger by the sum, and taking it away again
  // is exact. While tiles are in use a subtraction has a port that conversions and products have not; but loading
  // kMagic costs loads.
  template <int kDepth, bool kConverts>
  struct Tiles {
    static constexpr int kInFlight = 4;
    static constexpr int kFloats = 256;  // of a product's results

#ifdef __AMX_INT8__
    static constexpr float kMagic = 0x1.8p23F;
    struct alignas(64) Start {
      float sums[kFloats];
      constexpr Start() : sums{} {
        for (float& sum : sums) sum = kMagic;
      }
    };
    static constexpr Start kStart{};

    static void begin() {
      struct alignas(64) {
        uint8_t palette = 1, start_row = 0, reserved[14] = {};
        uint16_t row_bytes[16] = {64, 64, 64, 64, kDepth, kDepth, 64, 64};
        uint8_t rows[16] = {16, 16, 16, 16, 16, 16, kDepth / 4, kDepth / 4};
      } config;
      asm volatile("ldtilecfg %0" : : "m"(config));  // of g++ 12 the intrinsic reads 8 bytes of it
    }
    static void end() { _tile_release(); }

    // Begins product number kNumber: 16 rows of x, x_stride bytes apart, times kDepth / 4 lines of 64 bytes, byte 4·o +
    // i of line j being output o, k = 4·j + i; both so many bytes behind x and w.
    template <int kNumber, int kXOffset, int kWOffset>
    static QR_INLINE void multiply(const int8_t* x, int64_t x_stride, const std::byte* w) {
      if constexpr (kConverts) {
        asm volatile("tilezero %%tmm%c[sums]" : : [sums] "i"(kNumber));
      } else {
        asm volatile("tileloadd (%[start],%[line],1), %%tmm%c[sums]"
                     :
                     : [start] "r"(kStart.sums), [line] "r"(int64_t{64}), [sums] "i"(kNumber), "m"(kStart));
      }
      asm volatile(
          "tileloadd %c[x_offset](%[x],%[x_stride],1), %%tmm%c[x_tile]\n\t"
          "tileloadd %c[w_offset](%[w],%[line],1), %%tmm%c[w_tile]\n\t"
          "tdpbssd %%tmm%c[w_tile], %%tmm%c[x_tile], %%tmm%c[sums]"
          :
          : [x] "r"(x), [x_stride] "r"(x_stride), [w] "r"(w), [line] "r"(int64_t{64}), [x_offset] "i"(kXOffset),
            [w_offset] "i"(kWOffset), [sums] "i"(kNumber), [x_tile] "i"(4 + kNumber % 2), [w_tile] "i"(6 + kNumber % 2)
          : "memory");
    }
    // Row r's 16 sums go to results[kFloats · kNumber + 16 · r …], as sums() reads them.
    template <int kNumber>
    static QR_INLINE void store(float* results) {
      asm volatile(
          "tilestored %%tmm%c[sums], %c[offset](%[to],%[line],1)"
          :
          : [sums] "i"(kNumber), [offset] "i"(kNumber * kFloats * 4), [to] "r"(results), [line] "r"(int64_t{64})
          : "memory");
    }
    // `rounds` times kInFlight products of registers only; returns how many operations that were.
    static int64_t spin(int64_t rounds) {
      begin();
      asm volatile(
          "tilezero %%tmm0; tilezero %%tmm1; tilezero %%tmm2; tilezero %%tmm3\n\t"
          "tilezero %%tmm4; tilezero %%tmm5; tilezero %%tmm6; tilezero %%tmm7" ::);
      for (int64_t r = 0; r < rounds; ++r) {
        asm volatile(
            "tdpbssd %%tmm6, %%tmm4, %%tmm0\n\t"
            "tdpbssd %%tmm7, %%tmm4, %%tmm1\n\t"
            "tdpbssd %%tmm6, %%tmm5, %%tmm2\n\t"
            "tdpbssd %%tmm7, %%tmm5, %%tmm3" ::);
      }
      end();
      return rounds * kInFlight * kFloats * kDepth * 2;
    }
    static QR_INLINE F sums(const float* from) {
      if constexpr (!kConverts) return sub(load(from), set1(kMagic));
      return to_float(_mm512_loadu_si512(from));
    }
#else  // plain loops, for tests on machines without (docs/backend-cpu.md)
    static void begin() {}
    static void end() {}
    template <int kNumber, int kXOffset, int kWOffset>
    static void multiply(const int8_t* x, int64_t x_stride, const std::byte* w) {
      x += kXOffset;
      w += kWOffset;
      for (int i = 0; i < kFloats; ++i) {
        int32_t sum = 0;
        for (int k = 0; k < kDepth; ++k) {
          sum += x[i / 16 * x_stride + k] * static_cast<int8_t>(w[k / 4 * 64 + i % 16 * 4 + k % 4]);
        }
        tiles[kNumber][i] = sum;
      }
    }
    template <int kNumber>
    static void store(float* results) {
      __builtin_memcpy(results + kNumber * kFloats, tiles[kNumber], sizeof tiles[kNumber]);
    }
    static int64_t spin(int64_t /*rounds*/) { return 0; }
    static QR_INLINE F sums(const float* from) { return to_float(_mm512_loadu_si512(from)); }

   private:
    static inline thread_local int32_t tiles[kInFlight][kFloats];

   public:
#endif
  };
};

}  // namespace
}  // namespace quire
