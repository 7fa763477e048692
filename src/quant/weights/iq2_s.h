// Weight format IQ2_S: super-blocks of 16 scale groups of 16 numbers with four-bit scales, in groups of eight out of a
// grid of 1024 (GGUF type 22; quant/grid_format.h).
//   file block: f16 d | 32 bytes: low bits of where the eights are in the grid | 32 bytes of signs | 8 bytes: their two
//   high bits, four each | 8 bytes: two scales each          value = d · (2 · scale + 1) / 8 · level
#pragma once
#include "quant/grid_format.h"

namespace quire {

struct IQ2_S : GridFormat<IQ2_S, TwoBitLevels, Numbers3, 16> {
  static constexpr std::string_view kName = "iq2_s";
  static constexpr uint32_t kGgmlType = 22;
  static constexpr int kBytes = 82;
  static constexpr float kUnit = 0.125F;
  using Grid = GridOf8;
  static constexpr const auto& kGrid = grids::kIq2S;
  static constexpr int kMostScale = 15, kShiftGroup = 0;
  static constexpr bool kEvenSigns = false;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    parts.d = load_as<uint16_t>(block);
    for (int i = 0; i < 32; ++i) {
      const unsigned high = static_cast<uint8_t>(block[66 + i / 4]) >> (2 * (i % 4)) & 3U;
      const unsigned at = static_cast<uint8_t>(block[2 + i]) | high << 8;
      Grid::put(kGrid, at, static_cast<uint8_t>(block[34 + i]), parts.q + 8 * i);
    }
    split_odd_scales(block + 74, 16, parts.scale);
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    unsigned high = 0;
    for (int i = 0; i < 32; ++i) {
      const uint8_t* q = parts.q + 8 * i;
      const unsigned at = Grid::find(kGrid, q);
      block[2 + i] = static_cast<std::byte>(at);
      block[34 + i] = static_cast<std::byte>(Grid::signs(q));
      high = (i % 4 == 0 ? 0 : high) | at >> 8 << (2 * (i % 4));
      block[66 + i / 4] = static_cast<std::byte>(high);
    }
    join_odd_scales(parts.scale, 16, block + 74);
  }
};

}  // namespace quire
