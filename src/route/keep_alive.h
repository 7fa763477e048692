// How long a local engine stays when nobody asks it, as people write it. Pure.
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/result.h"

namespace quire {

inline constexpr int64_t kKeepForever = std::numeric_limits<int64_t>::max();  // milliseconds

// "5m", "1h30m", "1.5s", "250ms", or a number of seconds: milliseconds. What is below 0 is for ever, as Ollama has it.
// Code::invalid where it is neither, or longer than kMostKeepAliveMs.
inline constexpr int64_t kMostKeepAliveMs = int64_t{100} * 365 * 24 * 3600 * 1000;
Result<int64_t> parse_keep_alive(std::string_view text);

// The same as a value of JSON, as it is written: a number or a string.
Result<int64_t> parse_keep_alive_json(std::string_view value);

}  // namespace quire
