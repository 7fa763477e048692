// For tests of libraries that leak: what a thread allocates while a MayLeak of its own lives is not looked for by the
// sanitizer. Without the sanitizer it does nothing.
#pragma once

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define QR_LEAKS_ARE_SOUGHT
#endif
#endif

namespace quire {

struct MayLeak {
#ifdef QR_LEAKS_ARE_SOUGHT
  __lsan::ScopedDisabler disabler;
#else
  MayLeak() {}  // no variable that nobody uses
#endif
};

}  // namespace quire
