// Weight format IQ3_XXS: super-blocks of 8 scale groups of 32 numbers with four-bit scales, in groups of four out of a
// grid of 256 (GGUF type 18; quant/grid_format.h).
//   file block: f16 d | 64 bytes: where the fours are in the grid | for each scale group u32: four times seven signs,
//   the scale above them          value = d · (2 · scale + 1) / 4 · level
#pragma once
#include "quant/grid_format.h"

namespace quire {

// Magnitudes 4, 12, 20, 28, 36, 44, 52, 62, the negative ones from number 8 on.
struct IQ3_XXS : GridFormat<IQ3_XXS, Table<0x3e342c241c140c04, 0xc2ccd4dce4ecf4fc, 62>, Numbers4, 32> {
  static constexpr std::string_view kName = "iq3_xxs";
  static constexpr uint32_t kGgmlType = 18;
  static constexpr int kBytes = 98;
  static constexpr float kUnit = 0.25F;
  using Grid = GridOf4;
  static constexpr const auto& kGrid = grids::kIq3Xxs;
  static constexpr int kMostScale = 15, kShiftGroup = 0;
  static constexpr bool kEvenSigns = true;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    parts.d = load_as<uint16_t>(block);
    for (int g = 0; g < 8; ++g) {
      const auto word = load_as<uint32_t>(block + 66 + 4 * g);
      parts.scale[g] = static_cast<int8_t>(2 * (word >> 28) + 1);
      for (int i = 0; i < 8; ++i) {
        const unsigned signs = with_eighth_sign(word >> (7 * (i / 2)) & 127) >> (4 * (i % 2));
        Grid::put(kGrid, static_cast<uint8_t>(block[2 + 8 * g + i]), signs, parts.q + 32 * g + 4 * i);
      }
    }
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    for (int g = 0; g < 8; ++g) {
      uint32_t word = static_cast<uint32_t>(parts.scale[g] >> 1) << 28;
      for (int i = 0; i < 8; ++i) {
        const uint8_t* q = parts.q + 32 * g + 4 * i;
        block[2 + 8 * g + i] = static_cast<std::byte>(Grid::find(kGrid, q));
        word |= (Grid::signs(q) & (i % 2 == 0 ? 15U : 7U)) << (7 * (i / 2) + 4 * (i % 2));
      }
      store_as<uint32_t>(block + 66 + 4 * g, word);
    }
  }
};

}  // namespace quire
