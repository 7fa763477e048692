// Weight format IQ1_S: super-blocks of 8 scale groups of 32 numbers −1, 0, 1 that are shifted together by an eighth up
// or down, with three-bit scales, in groups of eight out of a grid of 2048 (GGUF type 19; quant/grid_format.h).
//   file block: f16 d | 32 bytes: low bits of where the eights are in the grid | for each scale group u16: four times
//   their three high bits, the scale, the shift's sign          value = d · (2 · scale + 1) / 8 · level
#pragma once
#include "quant/grid_format.h"

namespace quire {

struct IQ1_S : GridFormat<IQ1_S, ShiftedLevels, Numbers3, 32> {
  static constexpr std::string_view kName = "iq1_s";
  static constexpr uint32_t kGgmlType = 19;
  static constexpr int kBytes = 50;
  static constexpr float kUnit = 0.125F;
  using Grid = GridOf8;
  static constexpr const auto& kGrid = grids::kIq1;
  static constexpr int kMostScale = 7, kShiftGroup = 32;
  static constexpr bool kEvenSigns = false;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    parts.d = load_as<uint16_t>(block);
    for (int g = 0; g < 8; ++g) {
      const auto word = load_as<uint16_t>(block + 34 + 2 * g);
      parts.scale[g] = static_cast<int8_t>(2 * (word >> 12 & 7) + 1);
      for (int i = 4 * g; i < 4 * g + 4; ++i) {
        const unsigned at = static_cast<uint8_t>(block[2 + i]) | (word >> (3 * (i % 4)) & 7U) << 8;
        Grid::put(kGrid, at, word >> 15 != 0 ? 255 : 0, parts.q + 8 * i);
      }
    }
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    for (int g = 0; g < 8; ++g) {
      unsigned word = static_cast<unsigned>(parts.scale[g] >> 1) << 12;
      if ((parts.q[32 * g] & Grid::kSign) != 0) word |= 0x8000;
      for (int i = 4 * g; i < 4 * g + 4; ++i) {
        const unsigned at = Grid::find(kGrid, parts.q + 8 * i);
        block[2 + i] = static_cast<std::byte>(at);
        word |= at >> 8 << (3 * (i % 4));
      }
      store_as<uint16_t>(block + 34 + 2 * g, static_cast<uint16_t>(word));
    }
  }
};

}  // namespace quire
