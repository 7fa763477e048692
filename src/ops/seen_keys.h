// Which keys of its sequence a row sees: up to two ranges. One definition for all backends and instruction sets.
#pragma once

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

}  // namespace quire
