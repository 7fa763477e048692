// Weight format F8_128: blocks of 128 eight-bit floats (e4m3) with a scale in f32 (what folders of FP8 weights store;
// not in GGUF).          value = d · e4m3(byte)
#pragma once
#include "quant/scaled_format.h"

namespace quire {

struct F8_128 : ScaledE4m3<128> {
  static constexpr std::string_view kName = "f8_128";
};

}  // namespace quire
