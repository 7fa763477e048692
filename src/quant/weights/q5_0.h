// Weight format Q5_0: blocks of 32 five-bit numbers with one half-precision scale (GGUF type 6).
//   file block: f16 d | u32 fifth bits, bit i of number i | 16 bytes, byte i = low bits of numbers i and 16 + i
//   value = d · (number − 16)
#pragma once
#include "quant/block_format.h"

namespace quire {

struct Q5_0 : BlockFormat<Q5_0, Whole<-16, 15>, Numbers5, false> {
  static constexpr std::string_view kName = "q5_0";
  static constexpr uint32_t kGgmlType = 6;
  static constexpr int kBytes = 22;

  static QR_INLINE void split(const std::byte* block, BlockParts& parts) {
    parts.d = load_as<uint16_t>(block);
    split_nibbles(block + 6, parts.q);
    split_fifth_bits(load_as<uint32_t>(block + 2), parts.q);
  }
  static QR_INLINE void join(const BlockParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    store_as<uint32_t>(block + 2, join_fifth_bits(parts.q));
    join_nibbles(parts.q, block + 6);
  }
};

}  // namespace quire
