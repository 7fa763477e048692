// Weight format Q5_K: super-blocks of 8 scale groups of 32 five-bit numbers with six-bit scales and mins (GGUF type
// 13).
//   file block: f16 d | f16 dmin | 12 bytes of scales and mins (k_scales.h) | 32 bytes of fifth bits, bit g of byte i
//   that of number i of scale group g | 128 bytes of low bits as in Q4_K          value = d · scale · number − dmin ·
//   min
#pragma once
#include "quant/k_format.h"
#include "quant/k_scales.h"

namespace quire {

struct Q5_K : KFormat<Q5_K, Whole<0, 31>, Numbers5, 32, SubScale::bytes> {
  static constexpr std::string_view kName = "q5_k";
  static constexpr uint32_t kGgmlType = 13;
  static constexpr int kBytes = 176;
  static constexpr int kLowScale = 0, kHighScale = 63;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    parts.d = load_as<uint16_t>(block);
    parts.dmin = load_as<uint16_t>(block + 2);
    split_k_scales(block + 4, parts.scale, parts.min);
    split_k_nibbles(block + 48, parts.q);
    for (int g = 0; g < 8; ++g) {
      uint8_t* q = parts.q + 32 * g;
      for (int i = 0; i < 32; ++i) {
        q[i] = static_cast<uint8_t>(q[i] | (static_cast<uint8_t>(block[16 + i]) >> g & 1) << 4);
      }
    }
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    store_as<uint16_t>(block + 2, parts.dmin);
    join_k_scales(parts.scale, parts.min, block + 4);
    join_k_nibbles(parts.q, block + 48);
    for (int i = 0; i < 32; ++i) {
      unsigned bits = 0;
      for (int g = 0; g < 8; ++g) bits |= static_cast<unsigned>(parts.q[32 * g + i] >> 4 & 1) << g;
      block[16 + i] = static_cast<std::byte>(bits);
    }
  }
};

}  // namespace quire
