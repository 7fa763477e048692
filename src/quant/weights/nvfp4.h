// Weight format NVFP4: blocks of 64 four-bit floats (e2m1), every 16 of which have a scale that is a float of eight
// bits without a sign (GGUF type 40).
//   file block: 4 scales | 32 bytes (quant/fp4_format.h)          value = scale[g] / 2 · level(number)
// A scale's highest bit counts for nothing, and the one that would be no number counts as 0, as in the gguf package.
// Files that were converted from folders have a factor besides, in a tensor of its own: io/gguf_factors.h.
#pragma once
#include "quant/fp4_format.h"

namespace quire {

struct NVFP4 : Fp4Format<NVFP4, false> {
  static constexpr std::string_view kName = "nvfp4";
  static constexpr uint32_t kGgmlType = 40;
  static constexpr bool kHasSpares = true;

  static QR_INLINE uint8_t scale_byte(uint8_t byte) {
    const auto magnitude = static_cast<uint8_t>(byte & 0x7fU);
    return magnitude == 0x7fU ? uint8_t{0} : magnitude;
  }
};

}  // namespace quire
