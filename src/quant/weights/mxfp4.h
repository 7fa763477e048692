// Weight format MXFP4: blocks of 32 four-bit floats (e2m1) with one exponent byte (GGUF type 39; OCP Microscaling
// Formats 1.0).
//   file block: u8 e | 16 bytes, byte i = number i | number 16 + i << 4          value = 2^(e − 128) · level(number)
// The levels are twice the floats, so that they are whole; the scale is half of the block's. A panel holds it as
// bfloat16, which has all of them.
#pragma once
#include "quant/block_format.h"
#include "quant/fp4_levels.h"
#include "quant/search.h"

namespace quire {

struct MXFP4 : BlockFormat<MXFP4, Fp4Levels, Numbers4, false> {
  static constexpr std::string_view kName = "mxfp4";
  static constexpr uint32_t kGgmlType = 39;
  static constexpr int kBytes = 17;

  static QR_INLINE float widen(uint16_t d) { return bf16_to_f32(d); }
  template <class V>
  static QR_INLINE typename V::F load_wide(const std::byte* from) {
    return V::load_bf16(reinterpret_cast<const uint16_t*>(from));
  }

  static QR_INLINE void split(const std::byte* block, BlockParts& parts) {
    parts.d = scale_of(static_cast<uint8_t>(block[0]));
    split_nibbles(block + 1, parts.q);
  }
  static QR_INLINE void join(const BlockParts& parts, std::byte* block) {
    block[0] = static_cast<std::byte>(exponent_of(parts.d));
    join_nibbles(parts.q, block + 1);
  }
  // The exponent under which the nearest levels have the least squared error, around the one that keeps the largest
  // number below the last level.
  static void encode(const float* in, std::byte* block) {
    float amax = 0;
    for (int i = 0; i < kBlock; ++i) amax = std::fabs(in[i]) > amax ? std::fabs(in[i]) : amax;
    const int covering = amax > 0 && amax <= 0x1p127F ? std::ilogb(amax) + 128 - 3 : 0;
    BlockParts parts{};
    double least = INFINITY;
    for (int e = covering - 1; e <= covering + 1; ++e) {
      const uint16_t d = scale_of(static_cast<uint8_t>(e < 0 ? 0 : e > 254 ? 254 : e));
      const double error = search::error_at<Levels>(search::Numbers<false>{in, nullptr, kBlock}, {widen(d), 0});
      if (!(error < least)) continue;
      least = error;
      parts.d = d;
    }
    search::write_numbers<Levels>(in, kBlock, {widen(parts.d), 0}, parts.q);
    join(parts, block);
  }

 private:
  // 2^(e − 128) as bfloat16: a denormal for e < 2.
  static QR_INLINE uint16_t scale_of(uint8_t e) { return static_cast<uint16_t>(e < 2 ? 0x20 << e : (e - 1) << 7); }
  static QR_INLINE uint8_t exponent_of(uint16_t d) {
    return static_cast<uint8_t>(d < 0x80 ? (d == 0x40 ? 1 : 0) : (d >> 7) + 1);
  }
};

}  // namespace quire
