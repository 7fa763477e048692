// Weight format IQ3_S: super-blocks of 8 scale groups of 32 numbers with four-bit scales, in groups of four out of a
// grid of 512 (GGUF type 21; quant/grid_format.h).
//   file block: f16 d | 64 bytes: low bits of where the fours are in the grid | 8 bytes: their high bits | 32 bytes of
//   signs | 4 bytes: two scales each          value = d · (2 · scale + 1) · level
#pragma once
#include "quant/grid_format.h"

namespace quire {

// Magnitudes 1, 3, 5 … 15, the negative ones from number 8 on.
struct IQ3_S : GridFormat<IQ3_S, Table<0x0f0d0b0907050301, 0xf1f3f5f7f9fbfdff, 15>, Numbers4, 32> {
  static constexpr std::string_view kName = "iq3_s";
  static constexpr uint32_t kGgmlType = 21;
  static constexpr int kBytes = 110;
  static constexpr float kUnit = 1;
  using Grid = GridOf4;
  static constexpr const auto& kGrid = grids::kIq3S;
  static constexpr int kMostScale = 15, kShiftGroup = 0;
  static constexpr bool kEvenSigns = false;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    parts.d = load_as<uint16_t>(block);
    for (int i = 0; i < 64; ++i) {
      const unsigned high = static_cast<uint8_t>(block[66 + i / 8]) >> (i % 8) & 1U;
      const unsigned at = static_cast<uint8_t>(block[2 + i]) | high << 8;
      const unsigned signs = static_cast<uint8_t>(block[74 + i / 2]) >> (4 * (i % 2));
      Grid::put(kGrid, at, signs, parts.q + 4 * i);
    }
    split_odd_scales(block + 106, 8, parts.scale);
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    unsigned high = 0;
    unsigned signs = 0;
    for (int i = 0; i < 64; ++i) {
      const uint8_t* q = parts.q + 4 * i;
      const unsigned at = Grid::find(kGrid, q);
      block[2 + i] = static_cast<std::byte>(at);
      high = (i % 8 == 0 ? 0 : high) | at >> 8 << (i % 8);
      block[66 + i / 8] = static_cast<std::byte>(high);
      signs = (i % 2 == 0 ? 0 : signs) | Grid::signs(q) << (4 * (i % 2));
      block[74 + i / 2] = static_cast<std::byte>(signs);
    }
    join_odd_scales(parts.scale, 8, block + 106);
  }
};

}  // namespace quire
