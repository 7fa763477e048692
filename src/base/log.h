// One line per event on stderr, with level and time. Prompts and generated text are never logged. A command that serves
// holds a LogThread: while one exists nobody who logs waits for whoever reads stderr. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/line_writer.h"

namespace quire {

enum class LogLevel { debug, info, warn, error };

void set_log_level(LogLevel);
void log(LogLevel, std::string_view message);  // control characters in `message` are escaped
inline void log_info(std::string_view m) { log(LogLevel::info, m); }
inline void log_warn(std::string_view m) { log(LogLevel::warn, m); }
inline void log_error(std::string_view m) { log(LogLevel::error, m); }
// A line of another form, as it is. REQUIRES no line end and nothing unescaped in it.
void log_line(std::string_view line);

// Lines of the log that nobody got, because stderr was not read or refused them, since the process began.
uint64_t n_log_lines_dropped();
// Waits for what is queued, but no longer than a reader that is stuck deserves. For whoever ends the process.
void flush_log();
// The process's last words on stderr, behind what is queued and as they are; given up where nobody reads.
void log_last(std::string_view line);

// While it lives lines are queued (LineLimits) and a thread writes them; without one they are written at once.
// REQUIRES at most one at a time.
class LogThread {
 public:
  LogThread();
  ~LogThread();  // writes what is queued
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;
};

}  // namespace quire
