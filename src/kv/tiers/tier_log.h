// What a tier says in the log. Any thread.
#pragma once
#include <new>
#include <string>
#include <string_view>

#include "base/log.h"

namespace quire {

// Where there is no memory for a line there is none.
inline void say(LogLevel level, std::string_view what, std::string_view why = {}) noexcept {
  try {
    log(level, std::string(what).append(why));
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace quire
