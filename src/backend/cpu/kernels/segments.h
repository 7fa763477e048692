// K is cut into 8 block-aligned segments; each sums from zero in block order; a binary tree joins them: ((0+1)+(2+3)) +
// ((4+5)+(6+7)) (docs/numerics.md, "Linear").
#pragma once
#include "quant/f16.h"

namespace quire {
namespace {

inline constexpr int kSegments = 8;
inline constexpr int kLevels = 3;  // of the tree: so many sums can wait for their partners

QR_INLINE int64_t segment_begin(int64_t n_blocks, int s) { return n_blocks * s / kSegments; }

// The tree over parts[s · stride].
template <class V>
QR_INLINE typename V::F fold_segments(const typename V::F* parts, int stride) {
  static_assert(kSegments == 8);
  const auto two = [&](int s) { return V::add(parts[s * stride], parts[(s + 1) * stride]); };
  return V::add(V::add(two(0), two(2)), V::add(two(4), two(6)));
}

// The same, segment after segment: sums that wait when segment s begins, one for each 1 among its bits. As many of
// them as 1s end its number are joined with it when it ends.
QR_INLINE int waiting_before(int s) { return __builtin_popcount(static_cast<unsigned>(s)); }

}  // namespace
}  // namespace quire
