// Weight format Q4_0: blocks of 32 four-bit numbers with one half-precision scale (GGUF type 2).
//   file block: f16 d | 16 bytes, byte i = number i | number 16 + i << 4          value = d · (number − 8)
#pragma once
#include "quant/block_format.h"

namespace quire {

struct Q4_0 : NibbleFormat<Q4_0, Whole<-8, 7>> {
  static constexpr std::string_view kName = "q4_0";
  static constexpr uint32_t kGgmlType = 2;
};

}  // namespace quire
