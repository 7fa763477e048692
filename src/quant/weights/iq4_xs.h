// Weight format IQ4_XS: super-blocks of 8 scale groups of 32 four-bit numbers of uneven levels with six-bit scales
// (GGUF type 23).
//   file block: f16 d | u16 high bits of the scales, two each | 4 bytes of their low four bits | 128 bytes: of scale
//   group g, byte 16·g + i holds numbers i and 16 + i          value = d · (scale − 32) · level(number)
#pragma once
#include "quant/block_format.h"
#include "quant/k_format.h"

namespace quire {

struct IQ4_XS : KFormat<IQ4_XS, UnevenLevels, Numbers4, 32, SubScale::only> {
  static constexpr std::string_view kName = "iq4_xs";
  static constexpr uint32_t kGgmlType = 23;
  static constexpr int kBytes = 136;
  static constexpr int kLowScale = -32, kHighScale = 31;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    parts.d = load_as<uint16_t>(block);
    const int high = load_as<uint16_t>(block + 2);
    for (int g = 0; g < 8; ++g) {
      const int low = static_cast<uint8_t>(block[4 + g / 2]) >> (4 * (g % 2)) & 15;
      parts.scale[g] = static_cast<int8_t>((low | (high >> (2 * g) & 3) << 4) - 32);
      split_nibbles(block + 8 + 16 * g, parts.q + 32 * g);
    }
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    int high = 0;
    int low = 0;
    for (int g = 0; g < 8; ++g) {
      const int scale = parts.scale[g] + 32;
      high |= (scale >> 4) << (2 * g);
      low = g % 2 == 0 ? scale & 15 : low | (scale & 15) << 4;
      block[4 + g / 2] = static_cast<std::byte>(low);
      join_nibbles(parts.q + 32 * g, block + 8 + 16 * g);
    }
    store_as<uint16_t>(block + 2, static_cast<uint16_t>(high));
  }
};

}  // namespace quire
