// The parts that several of the K formats' file blocks have in common.
#pragma once
#include "quant/f16.h"

namespace quire {

// Eight six-bit scales and mins in 12 bytes. Bytes g and 4 + g hold scale and min of scale group g < 4 in their low six
// bits. Of scale groups 4 + g, byte 8 + g holds the low four bits of scale and min; their high two are the top bits of
// bytes g and 4 + g.
QR_INLINE void split_k_scales(const std::byte* from, int8_t* scale, uint8_t* min) {
  for (int g = 0; g < 4; ++g) {
    const auto a = static_cast<uint8_t>(from[g]);
    const auto b = static_cast<uint8_t>(from[4 + g]);
    const auto c = static_cast<uint8_t>(from[8 + g]);
    scale[g] = static_cast<int8_t>(a & 63);
    min[g] = b & 63;
    scale[4 + g] = static_cast<int8_t>((c & 15) | (a >> 6) << 4);
    min[4 + g] = static_cast<uint8_t>(c >> 4 | (b >> 6) << 4);
  }
}
QR_INLINE void join_k_scales(const int8_t* scale, const uint8_t* min, std::byte* to) {
  for (int g = 0; g < 4; ++g) {
    const int high = scale[4 + g];
    to[g] = static_cast<std::byte>(scale[g] | high >> 4 << 6);
    to[4 + g] = static_cast<std::byte>(min[g] | min[4 + g] >> 4 << 6);
    to[8 + g] = static_cast<std::byte>((high & 15) | (min[4 + g] & 15) << 4);
  }
}

// Low four bits of 256 numbers: of scale groups 2c and 2c + 1 of 32, byte 32·c + i holds number i of both.
QR_INLINE void split_k_nibbles(const std::byte* from, uint8_t* q) {
  for (int c = 0; c < 4; ++c) {
    for (int i = 0; i < 32; ++i) {
      const auto byte = static_cast<uint8_t>(from[32 * c + i]);
      q[64 * c + i] = byte & 15;
      q[64 * c + 32 + i] = byte >> 4;
    }
  }
}
QR_INLINE void join_k_nibbles(const uint8_t* q, std::byte* to) {
  for (int c = 0; c < 4; ++c) {
    for (int i = 0; i < 32; ++i) {
      to[32 * c + i] = static_cast<std::byte>((q[64 * c + i] & 15) | (q[64 * c + 32 + i] & 15) << 4);
    }
  }
}

// Low two bits of 256 numbers: of the half h and its quarter j, byte 32·h + i holds number i in bits 2·j, 2·j + 1.
QR_INLINE void split_k_pairs(const std::byte* from, uint8_t* q) {
  for (int h = 0; h < 2; ++h) {
    for (int j = 0; j < 4; ++j) {
      for (int i = 0; i < 32; ++i) {
        q[128 * h + 32 * j + i] = static_cast<uint8_t>(from[32 * h + i]) >> (2 * j) & 3;
      }
    }
  }
}
QR_INLINE void join_k_pairs(const uint8_t* q, std::byte* to) {
  for (int h = 0; h < 2; ++h) {
    for (int i = 0; i < 32; ++i) {
      unsigned byte = 0;
      for (int j = 0; j < 4; ++j) byte |= (q[128 * h + 32 * j + i] & 3U) << (2 * j);
      to[32 * h + i] = static_cast<std::byte>(byte);
    }
  }
}

}  // namespace quire
