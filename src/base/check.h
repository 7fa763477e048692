// Bugs abort with values. QR_CHECK always; QR_DCHECK only where QR_DEBUG is on (presets dev and tsan).
// User input never reaches a check: it is refused with a Result above.
#pragma once
#include <string>

namespace quire {

[[noreturn]] void check_failed(const char* file, int line, const char* expr, const std::string& detail);

}  // namespace quire

// QR_CHECK(cond) or QR_CHECK(cond, "text with values").
#define QR_CHECK(cond, ...)                                                         \
  do {                                                                              \
    if (!(cond)) [[unlikely]]                                                       \
      ::quire::check_failed(__FILE__, __LINE__, #cond, ::std::string{__VA_ARGS__}); \
  } while (false)

#ifdef QR_DEBUG
#define QR_DCHECK(cond, ...) QR_CHECK(cond, __VA_ARGS__)
#else
#define QR_DCHECK(cond, ...) \
  do {                       \
  } while (false)
#endif
