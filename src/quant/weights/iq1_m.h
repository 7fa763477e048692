// Weight format IQ1_M: super-blocks of 16 scale groups of 16 numbers −1, 0, 1 that are shifted by an eighth up or down,
// eight together, with three-bit scales, in groups of eight out of a grid of 2048 (GGUF type 29; quant/grid_format.h).
//   file block: 32 bytes: low bits of where the eights are in the grid | 16 bytes: two times their three high bits and
//   the shift's sign | 4 × u16: four scales, and four bits of the f16 d, the lowest first
//   value = d · (2 · scale + 1) / 8 · level
#pragma once
#include "quant/grid_format.h"

namespace quire {

struct IQ1_M : GridFormat<IQ1_M, ShiftedLevels, Numbers3, 16> {
  static constexpr std::string_view kName = "iq1_m";
  static constexpr uint32_t kGgmlType = 29;
  static constexpr int kBytes = 56;
  static constexpr float kUnit = 0.125F;
  using Grid = GridOf8;
  static constexpr const auto& kGrid = grids::kIq1;
  static constexpr int kMostScale = 7, kShiftGroup = 8;
  static constexpr bool kEvenSigns = false;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    for (int i = 0; i < 32; ++i) {
      const unsigned high = static_cast<uint8_t>(block[32 + i / 2]) >> (4 * (i % 2)) & 15U;
      const unsigned at = static_cast<uint8_t>(block[i]) | (high & 7) << 8;
      Grid::put(kGrid, at, (high & 8) != 0 ? 255 : 0, parts.q + 8 * i);
    }
    unsigned d = 0;
    for (int w = 0; w < 4; ++w) {
      const auto word = load_as<uint16_t>(block + 48 + 2 * w);
      d |= static_cast<unsigned>(word >> 12) << (4 * w);
      for (int k = 0; k < 4; ++k) parts.scale[4 * w + k] = static_cast<int8_t>(2 * (word >> (3 * k) & 7) + 1);
    }
    parts.d = static_cast<uint16_t>(d);
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    unsigned high = 0;
    for (int i = 0; i < 32; ++i) {
      const uint8_t* q = parts.q + 8 * i;
      const unsigned at = Grid::find(kGrid, q);
      block[i] = static_cast<std::byte>(at);
      const unsigned four = at >> 8 | ((q[0] & Grid::kSign) != 0 ? 8U : 0U);
      high = (i % 2 == 0 ? 0 : high) | four << (4 * (i % 2));
      block[32 + i / 2] = static_cast<std::byte>(high);
    }
    for (int w = 0; w < 4; ++w) {
      unsigned word = (parts.d >> (4 * w) & 15U) << 12;
      for (int k = 0; k < 4; ++k) word |= static_cast<unsigned>(parts.scale[4 * w + k] >> 1) << (3 * k);
      store_as<uint16_t>(block + 48 + 2 * w, static_cast<uint16_t>(word));
    }
  }
};

}  // namespace quire
