// Weight format BF16: bfloat16. Two k lie side by side, as VDPBF16PS takes them; as the halves of 32 bits each needs
// one instruction to be an f32.
#pragma once
#include "quant/float_format.h"

namespace quire {

struct BF16 : FloatFormat<uint16_t, 2> {
  static constexpr std::string_view kName = "bf16";
  static constexpr uint32_t kGgmlType = 30;
  static constexpr bool kRounded = true;

  static QR_INLINE void decode(const std::byte* block, float* out) { *out = bf16_to_f32(load_as<uint16_t>(block)); }
  static QR_INLINE void encode(const float* in, std::byte* block) { store_as<Element>(block, f32_to_bf16(*in)); }
  template <class V>
  static QR_INLINE void load_two(const std::byte* panel, int64_t k, typename V::F* out) {
    V::load_bf16_pairs(reinterpret_cast<const Element*>(panel) + k * kPanelRows, out);
  }
};

}  // namespace quire
