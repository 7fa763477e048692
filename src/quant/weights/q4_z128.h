// Weight format Q4_Z128: blocks of 128 four-bit numbers with a half-precision scale and a zero of four-bit (what GPTQ
// and AWQ store of a scale group; not in GGUF).          value = d · (number − zero)
#pragma once
#include "quant/zero_format.h"

namespace quire {

struct Q4_Z128 : ZeroFormat<PackedNibbles, 128> {
  static constexpr std::string_view kName = "q4_z128";
};

}  // namespace quire
