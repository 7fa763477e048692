// Weight format F8_32: blocks of 32 eight-bit floats (e4m3) with a scale in f32 (what folders of FP8 weights store; not
// in GGUF).          value = d · e4m3(byte)
#pragma once
#include "quant/scaled_format.h"

namespace quire {

struct F8_32 : ScaledE4m3<32> {
  static constexpr std::string_view kName = "f8_32";
};

}  // namespace quire
