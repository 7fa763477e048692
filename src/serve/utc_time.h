// A time as JSON dialects write it.
#pragma once
#include <ctime>
#include <string>

namespace quire {

// Of seconds since 1970: "2026-01-31T12:00:00Z".
inline std::string utc_time(std::time_t at) {
  std::tm parts{};
  gmtime_r(&at, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace quire
