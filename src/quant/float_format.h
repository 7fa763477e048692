// Weight formats whose numbers stand alone: decoded to f32 before the product. kTogether: so many k of a row lie side
// by side in a panel.
#pragma once
#include "quant/f16.h"
#include "quant/weight_format.h"

namespace quire {

template <class E, int kTogether>
struct FloatFormat {
  using Element = E;
  static constexpr int kBlock = 1;
  static constexpr int kBytes = sizeof(E);
  static constexpr bool kInteger = false;
  static constexpr bool kRounded = false;
  static constexpr int kPanelBytes = kPanelRows * kPanelDepth * kBytes;
  static constexpr int kPanelScaleBytes = 0;

  static QR_INLINE int64_t place(int64_t k, int row) {
    return (k / kTogether * kPanelRows + row) * kTogether + k % kTogether;
  }
  // A file row is contiguous, so it is read element by element.
  static QR_INLINE void pack(const std::byte* const* rows, int depth, std::byte* panel) {
    auto* to = reinterpret_cast<Element*>(panel);
    for (int k = 0; k < kPanelDepth; ++k) {
      for (int r = 0; r < kPanelRows; ++r) {
        const bool inside = rows[r] != nullptr && k < depth;
        to[place(k, r)] = inside ? load_as<Element>(rows[r] + k * kBytes) : Element{};
      }
    }
  }
  static QR_INLINE void unpack(const std::byte* panel, int row, int depth, std::byte* out) {
    const auto* from = reinterpret_cast<const Element*>(panel);
    for (int k = 0; k < depth; ++k) store_as<Element>(out + k * kBytes, from[place(k, row)]);
  }
};

}  // namespace quire
