// Weight format BF16: bfloat16, decoded to f32 before the product.
#pragma once
#include "quant/f16.h"
#include "quant/weight_format.h"

namespace quire {

struct BF16 {
  static constexpr std::string_view kName = "bf16";
  static constexpr uint32_t kGgmlType = 30;
  static constexpr int kBlock = 1;
  static constexpr int kBytes = 2;
  static constexpr bool kInteger = false;
  static constexpr int kPanelBytes = kPanelRows * kPanelDepth * kBytes;
  static constexpr int kPanelScaleBytes = 0;
  using Element = uint16_t;

  static QR_INLINE void decode(const std::byte* block, float* out) { *out = bf16_to_f32(load_as<uint16_t>(block)); }
  static QR_INLINE void encode(const float* in, std::byte* block) { store_as<Element>(block, f32_to_bf16(*in)); }

  // panel[k][row]; a file row is contiguous, so it is read element by element.
  static QR_INLINE void pack(const std::byte* const* rows, int depth, std::byte* panel) {
    auto* to = reinterpret_cast<Element*>(panel);
    for (int k = 0; k < kPanelDepth; ++k) {
      for (int r = 0; r < kPanelRows; ++r) {
        const bool inside = rows[r] != nullptr && k < depth;
        to[k * kPanelRows + r] = inside ? load_as<Element>(rows[r] + k * kBytes) : Element{};
      }
    }
  }
  static QR_INLINE void unpack(const std::byte* panel, int row, int depth, std::byte* out) {
    const auto* from = reinterpret_cast<const Element*>(panel);
    for (int k = 0; k < depth; ++k) store_as<Element>(out + k * kBytes, from[k * kPanelRows + row]);
  }
  template <class V>
  static QR_INLINE typename V::F load_k(const std::byte* panel, int k) {
    return V::load_bf16(reinterpret_cast<const Element*>(panel) + k * kPanelRows);
  }
};

}  // namespace quire
