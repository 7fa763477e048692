// Weight format F4_64: blocks of 64 four-bit floats (e2m1), every 16 of which have a scale in e4m3, under a factor in
// f32 (what folders of NVFP4 weights store, where one factor is a whole tensor's; not in GGUF).
//   file block: f32 factor | 4 scales | 32 bytes (quant/fp4_format.h); value = factor / 2 · scale[g] · level(number)
#pragma once
#include "quant/fp4_format.h"

namespace quire {

// NOLINTNEXTLINE(readability-identifier-naming): as F4_64 is written
struct F4_64 : Fp4Format<F4_64, true> {
  static constexpr std::string_view kName = "f4_64";
  static constexpr uint32_t kGgmlType = kNoGgmlType;

  static QR_INLINE uint8_t scale_byte(uint8_t byte) { return byte; }
};

}  // namespace quire
