// The base of a KV codec whose rows have nothing that is applied once for a whole row (quant/kv_codec.h, scale_k and
// scale_v).
#pragma once
#include <cstddef>

#include "quant/f16.h"

namespace quire {

struct KvUnscaled {
  static constexpr int kTogether = 1;
  static constexpr bool kPacks = false;
  static constexpr bool kValuesInKeys = true;
  static constexpr bool kForResearch = false;
  static constexpr bool kRotatesKeys = false;
  static constexpr bool kRotatesValues = false;

  template <class V>
  static QR_INLINE typename V::F scale_k(const std::byte* /*strip*/, typename V::F dots) {
    return dots;
  }
  template <class V>
  static QR_INLINE typename V::F scale_v(const std::byte* /*strip*/, typename V::F weights) {
    return weights;
  }
};

}  // namespace quire
