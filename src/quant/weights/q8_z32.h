// Weight format Q8_Z32: blocks of 32 eight-bit numbers with a half-precision scale and a zero of eight-bit (what GPTQ
// and AWQ store of a scale group; not in GGUF).          value = d · (number − zero)
#pragma once
#include "quant/zero_format.h"

namespace quire {

struct Q8_Z32 : ZeroFormat<PackedBytes, 32> {
  static constexpr std::string_view kName = "q8_z32";
};

}  // namespace quire
