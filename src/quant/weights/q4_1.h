// Weight format Q4_1: blocks of 32 four-bit numbers with a half-precision scale and offset (GGUF type 3).
//   file block: f16 d | f16 m | 16 bytes, byte i = number i | number 16 + i << 4          value = d · number + m
#pragma once
#include "quant/block_format.h"

namespace quire {

struct Q4_1 : BlockFormat<Q4_1, Whole<0, 15>, Numbers4, true> {
  static constexpr std::string_view kName = "q4_1";
  static constexpr uint32_t kGgmlType = 3;
  static constexpr int kBytes = 20;

  static QR_INLINE void split(const std::byte* block, BlockParts& parts) {
    parts.d = load_as<uint16_t>(block);
    parts.m = load_as<uint16_t>(block + 2);
    split_nibbles(block + 4, parts.q);
  }
  static QR_INLINE void join(const BlockParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    store_as<uint16_t>(block + 2, parts.m);
    join_nibbles(parts.q, block + 4);
  }
};

}  // namespace quire
