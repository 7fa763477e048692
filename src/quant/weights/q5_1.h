// Weight format Q5_1: blocks of 32 five-bit numbers with a half-precision scale and offset (GGUF type 7).
//   file block: f16 d | f16 m | u32 fifth bits, bit i of number i | 16 bytes, byte i = low bits of numbers i and 16 + i
//   value = d · number + m
#pragma once
#include "quant/block_format.h"

namespace quire {

struct Q5_1 : BlockFormat<Q5_1, Whole<0, 31>, Numbers5, true> {
  static constexpr std::string_view kName = "q5_1";
  static constexpr uint32_t kGgmlType = 7;
  static constexpr int kBytes = 24;

  static QR_INLINE void split(const std::byte* block, BlockParts& parts) {
    parts.d = load_as<uint16_t>(block);
    parts.m = load_as<uint16_t>(block + 2);
    split_nibbles(block + 8, parts.q);
    split_fifth_bits(load_as<uint32_t>(block + 4), parts.q);
  }
  static QR_INLINE void join(const BlockParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    store_as<uint16_t>(block + 2, parts.m);
    store_as<uint32_t>(block + 4, join_fifth_bits(parts.q));
    join_nibbles(parts.q, block + 8);
  }
};

}  // namespace quire
