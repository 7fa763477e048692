// Weight format IQ4_NL: blocks of 32 four-bit numbers of uneven levels with one half-precision scale (GGUF type 20).
//   file block: f16 d | 16 bytes, byte i = number i | number 16 + i << 4          value = d · level(number)
#pragma once
#include "quant/block_format.h"

namespace quire {

struct IQ4_NL : BlockFormat<IQ4_NL, UnevenLevels, Numbers4, false> {
  static constexpr std::string_view kName = "iq4_nl";
  static constexpr uint32_t kGgmlType = 20;
  static constexpr int kBytes = 18;

  static QR_INLINE void split(const std::byte* block, BlockParts& parts) {
    parts.d = load_as<uint16_t>(block);
    split_nibbles(block + 2, parts.q);
  }
  static QR_INLINE void join(const BlockParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    join_nibbles(parts.q, block + 2);
  }
};

}  // namespace quire
