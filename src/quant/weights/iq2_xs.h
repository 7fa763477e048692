// Weight format IQ2_XS: super-blocks of 16 scale groups of 16 numbers with four-bit scales, in groups of eight out of
// a grid of 512 (GGUF type 17; quant/grid_format.h).
//   file block: f16 d | 32 × u16: where an eight is in the grid, seven signs above it | 8 bytes: two scales each
//   value = d · (2 · scale + 1) / 8 · level
#pragma once
#include "quant/grid_format.h"

namespace quire {

struct IQ2_XS : GridFormat<IQ2_XS, TwoBitLevels, Numbers3, 16> {
  static constexpr std::string_view kName = "iq2_xs";
  static constexpr uint32_t kGgmlType = 17;
  static constexpr int kBytes = 74;
  static constexpr float kUnit = 0.125F;
  using Grid = GridOf8;
  static constexpr const auto& kGrid = grids::kIq2Xs;
  static constexpr int kMostScale = 15, kShiftGroup = 0;
  static constexpr bool kEvenSigns = true;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    parts.d = load_as<uint16_t>(block);
    for (int i = 0; i < 32; ++i) {
      const auto word = load_as<uint16_t>(block + 2 + 2 * i);
      Grid::put(kGrid, word & 511, with_eighth_sign(word >> 9), parts.q + 8 * i);
    }
    split_odd_scales(block + 66, 16, parts.scale);
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    for (int i = 0; i < 32; ++i) {
      const uint8_t* q = parts.q + 8 * i;
      store_as<uint16_t>(block + 2 + 2 * i, static_cast<uint16_t>(Grid::find(kGrid, q) | (Grid::signs(q) & 127) << 9));
    }
    join_odd_scales(parts.scale, 16, block + 66);
  }
};

}  // namespace quire
