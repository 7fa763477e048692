// Weight format Q4_0: blocks of 32 four-bit numbers with one half-precision scale (GGUF type 2).
//   file block: f16 d | 16 bytes, byte i = number i | number 16 + i << 4          value = d · (number − 8)
#pragma once
#include "quant/block_format.h"

namespace quire {

struct Q4_0 : BlockFormat<Q4_0, Whole<-8, 7>, Numbers4, false> {
  static constexpr std::string_view kName = "q4_0";
  static constexpr uint32_t kGgmlType = 2;
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
