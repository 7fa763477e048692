// Weight format F16: half precision.
#pragma once
#include "quant/float_format.h"

namespace quire {

struct F16 : FloatFormat<uint16_t, 1> {
  static constexpr std::string_view kName = "f16";
  static constexpr uint32_t kGgmlType = 1;

  static QR_INLINE void decode(const std::byte* block, float* out) { *out = f16_to_f32(load_as<uint16_t>(block)); }
  static QR_INLINE void encode(const float* in, std::byte* block) { store_as<Element>(block, f32_to_f16(*in)); }
  template <class V>
  static QR_INLINE void load_two(const std::byte* panel, int64_t k, typename V::F* out) {
    const auto* from = reinterpret_cast<const Element*>(panel) + k * kPanelRows;
    out[0] = V::load_f16(from);
    out[1] = V::load_f16(from + kPanelRows);
  }
};

}  // namespace quire
