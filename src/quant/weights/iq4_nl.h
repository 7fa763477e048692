// Weight format IQ4_NL: blocks of 32 four-bit numbers of uneven levels with one half-precision scale (GGUF type 20).
//   file block: f16 d | 16 bytes, byte i = number i | number 16 + i << 4          value = d · level(number)
#pragma once
#include "quant/block_format.h"

namespace quire {

struct IQ4_NL : NibbleFormat<IQ4_NL, UnevenLevels> {
  static constexpr std::string_view kName = "iq4_nl";
  static constexpr uint32_t kGgmlType = 20;
};

}  // namespace quire
