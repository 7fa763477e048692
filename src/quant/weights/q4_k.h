// Weight format Q4_K: super-blocks of 8 scale groups of 32 four-bit numbers with six-bit scales and mins (GGUF type
// 12).
//   file block: f16 d | f16 dmin | 12 bytes of scales and mins (k_scales.h) | 128 bytes: of scale groups 2c and 2c + 1,
//   byte 32·c + i holds number i of both, the first in its low nibble          value = d · scale · number − dmin · min
#pragma once
#include "quant/k_format.h"
#include "quant/k_scales.h"

namespace quire {

struct Q4_K : KFormat<Q4_K, Whole<0, 15>, Numbers4, 32, SubScale::bytes> {
  static constexpr std::string_view kName = "q4_k";
  static constexpr uint32_t kGgmlType = 12;
  static constexpr int kBytes = 144;
  static constexpr int kLowScale = 0, kHighScale = 63;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    parts.d = load_as<uint16_t>(block);
    parts.dmin = load_as<uint16_t>(block + 2);
    split_k_scales(block + 4, parts.scale, parts.min);
    split_k_nibbles(block + 16, parts.q);
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    store_as<uint16_t>(block + 2, parts.dmin);
    join_k_scales(parts.scale, parts.min, block + 4);
    join_k_nibbles(parts.q, block + 16);
  }
};

}  // namespace quire
