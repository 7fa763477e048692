// Weight format IQ2_XXS: super-blocks of 8 scale groups of 32 numbers with four-bit scales, in groups of eight out of
// a grid of 256 (GGUF type 16; quant/grid_format.h).
//   file block: f16 d | for each scale group 4 bytes, where the eights are in the grid, and u32: four times seven
//   signs, the scale above them          value = d · (2 · scale + 1) / 8 · level
#pragma once
#include "quant/grid_format.h"

namespace quire {

struct IQ2_XXS : GridFormat<IQ2_XXS, TwoBitLevels, Numbers3, 32> {
  static constexpr std::string_view kName = "iq2_xxs";
  static constexpr uint32_t kGgmlType = 16;
  static constexpr int kBytes = 66;
  static constexpr float kUnit = 0.125F;
  using Grid = GridOf8;
  static constexpr const auto& kGrid = grids::kIq2Xxs;
  static constexpr int kMostScale = 15, kShiftGroup = 0;
  static constexpr bool kEvenSigns = true;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    parts.d = load_as<uint16_t>(block);
    for (int g = 0; g < 8; ++g) {
      const std::byte* from = block + 2 + 8 * g;
      const auto word = load_as<uint32_t>(from + 4);
      parts.scale[g] = static_cast<int8_t>(2 * (word >> 28) + 1);
      for (int i = 0; i < 4; ++i) {
        const unsigned signs = with_eighth_sign(word >> (7 * i) & 127);
        Grid::put(kGrid, static_cast<uint8_t>(from[i]), signs, parts.q + 32 * g + 8 * i);
      }
    }
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    for (int g = 0; g < 8; ++g) {
      std::byte* to = block + 2 + 8 * g;
      uint32_t word = static_cast<uint32_t>(parts.scale[g] >> 1) << 28;
      for (int i = 0; i < 4; ++i) {
        const uint8_t* q = parts.q + 32 * g + 8 * i;
        to[i] = static_cast<std::byte>(Grid::find(kGrid, q));
        word |= (Grid::signs(q) & 127) << (7 * i);
      }
      store_as<uint32_t>(to + 4, word);
    }
  }
};

}  // namespace quire
