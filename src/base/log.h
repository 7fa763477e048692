// One line per event on stderr, with level and time. Prompts and generated text are never logged.
// Any thread. The library behind it is hidden in log.cc.
#pragma once
#include <string_view>

namespace quire {

enum class LogLevel { debug, info, warn, error };

void set_log_level(LogLevel);
void log(LogLevel, std::string_view message);  // control characters in `message` are escaped
inline void log_info(std::string_view m) { log(LogLevel::info, m); }
inline void log_warn(std::string_view m) { log(LogLevel::warn, m); }
inline void log_error(std::string_view m) { log(LogLevel::error, m); }

}  // namespace quire
