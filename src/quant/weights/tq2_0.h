// Weight format TQ2_0: blocks of 256 two-bit numbers −1 … 2 with one scale, for models of −1, 0 and 1 (GGUF type 35).
//   file block: 64 bytes of numbers (k_scales.h) | f16 d          value = d · (number − 1)
#pragma once
#include "quant/k_format.h"
#include "quant/k_scales.h"
#include "quant/ternary.h"

namespace quire {

struct TQ2_0 : KFormat<TQ2_0, Whole<-1, 2>, Numbers2, 32, SubScale::only> {
  static constexpr std::string_view kName = "tq2_0";
  static constexpr uint32_t kGgmlType = 35;
  static constexpr int kBytes = 66;

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    split_k_pairs(block, parts.q);
    set_ternary_scales(load_as<uint16_t>(block + 64), parts);
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    join_k_pairs(parts.q, block);
    store_as<uint16_t>(block + 64, parts.d);
  }
  static QR_INLINE void encode(const float* in, std::byte* block) {
    KParts parts{};
    fit_ternary(in, parts);
    join(parts, block);
  }
};

}  // namespace quire
