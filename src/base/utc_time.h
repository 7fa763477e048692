// A time as JSON dialects write it.
#pragma once
#include <cstdint>
#include <ctime>
#include <string>

namespace quire {

// The last one that has four digits for its year; also what stands for "never".
inline constexpr const char* kLastUtcTime = "9999-12-31T23:59:59Z";

// Of seconds since 1970: "2026-01-31T12:00:00Z"; of a later one than kLastUtcTime that one.
inline std::string utc_time(int64_t seconds) {
  const std::time_t at = seconds;
  std::tm parts{};
  if (gmtime_r(&at, &parts) == nullptr || parts.tm_year > 9999 - 1900) return kLastUtcTime;
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace quire
