// Weight format F32: plain floats.
#pragma once
#include "quant/float_format.h"

namespace quire {

struct F32 : FloatFormat<float, 1> {
  static constexpr std::string_view kName = "f32";
  static constexpr uint32_t kGgmlType = 0;

  static QR_INLINE void decode(const std::byte* block, float* out) { *out = load_as<float>(block); }
  static QR_INLINE void encode(const float* in, std::byte* block) { store_as<Element>(block, *in); }
  template <class V>
  static QR_INLINE void load_two(const std::byte* panel, int64_t k, typename V::F* out) {
    const auto* from = reinterpret_cast<const Element*>(panel) + k * kPanelRows;
    out[0] = V::load(from);
    out[1] = V::load(from + kPanelRows);
  }
};

}  // namespace quire
