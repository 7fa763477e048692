// Weight format Q3_K: super-blocks of 16 scale groups of 16 three-bit numbers with six-bit scales (GGUF type 11).
//   file block: 32 bytes of third bits, bit j of byte i that of number 32·j + i | 64 bytes of low bits (k_scales.h) |
//   12 bytes of scales | f16 d          value = d · (scale − 32) · (number − 4)
//   Scales: byte g < 8 holds the low four bits of scales g and 8 + g, byte 8 + g % 4 the high two of scale g in bits
//   2·⌊g / 4⌋ and the next.
#pragma once
#include "quant/k_format.h"
#include "quant/k_scales.h"

namespace quire {

struct Q3_K : KFormat<Q3_K, Whole<-4, 3>, Numbers3, 16, SubScale::only> {
  static constexpr std::string_view kName = "q3_k";
  static constexpr uint32_t kGgmlType = 11;
  static constexpr int kBytes = 110;
  static constexpr int kLowScale = -32, kHighScale = 31;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    split_k_pairs(block + 32, parts.q);
    for (int j = 0; j < 8; ++j) {
      uint8_t* q = parts.q + 32 * j;
      for (int i = 0; i < 32; ++i) {
        q[i] = static_cast<uint8_t>(q[i] | (static_cast<uint8_t>(block[i]) >> j & 1) << 2);
      }
    }
    for (int g = 0; g < 16; ++g) {
      const int low = static_cast<uint8_t>(block[96 + g % 8]) >> (4 * (g / 8)) & 15;
      const int high = static_cast<uint8_t>(block[104 + g % 4]) >> (2 * (g / 4)) & 3;
      parts.scale[g] = static_cast<int8_t>((low | high << 4) - 32);
    }
    parts.d = load_as<uint16_t>(block + 108);
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    for (int i = 0; i < 32; ++i) {
      unsigned bits = 0;
      for (int j = 0; j < 8; ++j) bits |= static_cast<unsigned>(parts.q[32 * j + i] >> 2 & 1) << j;
      block[i] = static_cast<std::byte>(bits);
    }
    join_k_pairs(parts.q, block + 32);
    uint8_t scales[12] = {};
    for (int g = 0; g < 16; ++g) {
      const int scale = parts.scale[g] + 32;
      scales[g % 8] = static_cast<uint8_t>(scales[g % 8] | (scale & 15) << (4 * (g / 8)));
      scales[8 + g % 4] = static_cast<uint8_t>(scales[8 + g % 4] | (scale >> 4) << (2 * (g / 4)));
    }
    std::memcpy(block + 96, scales, sizeof scales);
    store_as<uint16_t>(block + 108, parts.d);
  }
};

}  // namespace quire
