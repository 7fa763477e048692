// Weight format Q2_K: super-blocks of 16 scale groups of 16 two-bit numbers with four-bit scales and mins (GGUF type
// 10).
//   file block: 16 bytes, scale | min << 4 of each scale group | 64 bytes of numbers (k_scales.h) | f16 d | f16 dmin
//   value = d · scale · number − dmin · min
#pragma once
#include "quant/k_format.h"
#include "quant/k_scales.h"

namespace quire {

struct Q2_K : KFormat<Q2_K, Whole<0, 3>, Numbers2, 16, SubScale::nibbles> {
  static constexpr std::string_view kName = "q2_k";
  static constexpr uint32_t kGgmlType = 10;
  static constexpr int kBytes = 84;
  static constexpr int kLowScale = 0, kHighScale = 15;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    for (int g = 0; g < 16; ++g) {
      parts.scale[g] = static_cast<int8_t>(static_cast<uint8_t>(block[g]) & 15);
      parts.min[g] = static_cast<uint8_t>(block[g]) >> 4;
    }
    split_k_pairs(block + 16, parts.q);
    parts.d = load_as<uint16_t>(block + 80);
    parts.dmin = load_as<uint16_t>(block + 82);
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    for (int g = 0; g < 16; ++g) block[g] = static_cast<std::byte>(parts.scale[g] | parts.min[g] << 4);
    join_k_pairs(parts.q, block + 16);
    store_as<uint16_t>(block + 80, parts.d);
    store_as<uint16_t>(block + 82, parts.dmin);
  }
};

}  // namespace quire
