// For tests: builds with sanitizers (presets with QR_DEBUG) are many times slower, so what only repeats, with other
// random values or on every backend, repeats less there.
#pragma once

namespace quire {

#ifdef QR_DEBUG
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// REQUIRES n >= 10.
constexpr int fewer_if_sanitized(int n) { return kSanitized ? n / 10 : n; }

}  // namespace quire
