// Weight format Q6_K: super-blocks of 16 scale groups of 16 six-bit numbers with eight-bit scales (GGUF type 14).
//   file block: 128 bytes of low bits | 64 bytes of high bits | int8 scales[16] | f16 d
//   Of each half of 128 numbers in four quarters: byte i < 64 of its low bits holds quarters 0 and 1 in the low nibble,
//   2 and 3 in the high one; byte i < 32 of its high bits holds quarter j's two in bits 2·j, 2·j + 1.
//   value = d · scale · (number − 32)
#pragma once
#include "quant/k_format.h"

namespace quire {

struct Q6_K : KFormat<Q6_K, Whole<-32, 31>, Numbers6, 16, SubScale::only> {
  static constexpr std::string_view kName = "q6_k";
  static constexpr uint32_t kGgmlType = 14;
  static constexpr int kBytes = 210;
  static constexpr int kLowScale = -128, kHighScale = 127;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    for (int h = 0; h < 2; ++h) {
      uint8_t* q = parts.q + 128 * h;
      for (int i = 0; i < 64; ++i) {
        const auto low = static_cast<uint8_t>(block[64 * h + i]);
        q[i] = low & 15;
        q[64 + i] = low >> 4;
      }
      for (int j = 0; j < 4; ++j) {
        for (int i = 0; i < 32; ++i) {
          const int high = static_cast<uint8_t>(block[128 + 32 * h + i]) >> (2 * j) & 3;
          q[32 * j + i] = static_cast<uint8_t>(q[32 * j + i] | high << 4);
        }
      }
    }
    std::memcpy(parts.scale, block + 192, 16);
    parts.d = load_as<uint16_t>(block + 208);
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    for (int h = 0; h < 2; ++h) {
      const uint8_t* q = parts.q + 128 * h;
      for (int i = 0; i < 64; ++i) block[64 * h + i] = static_cast<std::byte>((q[i] & 15) | (q[64 + i] & 15) << 4);
      for (int i = 0; i < 32; ++i) {
        unsigned high = 0;
        for (int j = 0; j < 4; ++j) high |= static_cast<unsigned>(q[32 * j + i] >> 4) << (2 * j);
        block[128 + 32 * h + i] = static_cast<std::byte>(high);
      }
    }
    std::memcpy(block + 192, parts.scale, 16);
    store_as<uint16_t>(block + 208, parts.d);
  }
};

}  // namespace quire
