// spdlog behind log.h: one synchronous, locked stderr sink. A message is made printable first, so that no text from
// outside can forge a second line or drive the terminal (control characters, C1 controls and broken UTF-8 are escaped).
#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>

namespace quire {
namespace {

spdlog::level::level_enum library_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::err;
}

spdlog::logger& logger() {
  // Never destroyed: threads that outlive main may still log.
  static spdlog::logger* const instance = [] {
    auto* made = new spdlog::logger("quire", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

void append_hex(std::string& out, unsigned char c) {
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\x";
  out += kHex[c >> 4];
  out += kHex[c & 15];
}

// Bytes of the UTF-8 sequence that `lead` opens; 0 for a byte that opens none.
size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

bool is_printable(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.empty() || byte(0) < 0x20 || byte(0) == 0x7f) return false;
  if (sequence.size() != sequence_length(byte(0))) return false;
  for (size_t i = 1; i < sequence.size(); ++i) {
    if ((byte(i) & 0xc0) != 0x80) return false;
  }
  if (byte(0) == 0xc2 && byte(1) < 0xa0) return false;                             // C1 controls
  const bool line_end = sequence == "\xE2\x80\xA8" || sequence == "\xE2\x80\xA9";  // LINE and PARAGRAPH SEPARATOR
  return !line_end;
}

std::string printable(std::string_view message) {
  std::string out;
  out.reserve(message.size());
  for (size_t at = 0; at < message.size();) {
    const auto c = static_cast<unsigned char>(message[at]);
    const std::string_view sequence = message.substr(at, std::max<size_t>(sequence_length(c), 1));
    if (is_printable(sequence)) {
      out += sequence;
      at += sequence.size();
      continue;
    }
    if (c == '\n') {
      out += "\\n";
    } else {
      append_hex(out, c);
    }
    ++at;
  }
  return out;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(library_level(level)); }

void log(LogLevel level, std::string_view message) {
  spdlog::logger& target = logger();
  if (target.should_log(library_level(level))) target.log(library_level(level), "{}", printable(message));
}

}  // namespace quire
