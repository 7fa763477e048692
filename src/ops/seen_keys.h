// Which keys of its sequence a row sees: up to two ranges. One definition for all backends and instruction sets.
#pragma once
#include "quant/kv_codec.h"

namespace quire {

inline constexpr int kMostKept = 256;  // keys that rows see besides their window: one chunk of a sum (docs/numerics.md)

// Keys [kept_begin, kept_end), then [first, end). The first range is empty unless keys between the two are not seen.
struct SeenKeys {
  int kept_begin, kept_end;
  int first, end;
};

// Of the keys first_key ≤ position < end_key the last `window` (0: all) and those before position n_kept. Always
// inlined: an instruction set's own code must not become everybody's.
[[gnu::always_inline]] inline SeenKeys seen_keys(int first_key, int end_key, int window, int n_kept) {
  const int oldest = window > 0 ? end_key - window : 0;
  if (n_kept <= first_key) return {0, 0, oldest > first_key ? oldest : first_key, end_key};
  if (oldest <= n_kept) return {0, 0, first_key, end_key};
  return {first_key, n_kept, oldest, end_key};
}

// Of codecs that pack whole strips (quant/kv_codec.h): of the keys that a row sees those before the strip of its last
// one, which are packed, and those in it. REQUIRES a window of a strip at least beside keys that are kept.
[[gnu::always_inline]] inline SeenKeys packed_keys(const SeenKeys& seen) {
  const int tail = (seen.end - 1) / kStripTokens * kStripTokens;
  return {seen.kept_begin, seen.kept_end, seen.first, tail > seen.first ? tail : seen.first};
}
[[gnu::always_inline]] inline SeenKeys tail_keys(const SeenKeys& seen) {
  return {0, 0, packed_keys(seen).end, seen.end};
}

}  // namespace quire
