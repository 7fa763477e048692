// The current time as templates write it. Time is an input: nothing here reads a clock.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::jinja {

// `now` is "YYYY-MM-DDTHH:MM:SS" (a blank instead of T and a fraction behind are taken too), local time; `format` as
// the C locale's strftime on Linux, with %f as microseconds and %z, %Z empty. Code::invalid for a `now` that is empty
// or no date, and for formats that are longer than 256 bytes or make more than 4096.
Result<std::string> format_time(std::string_view now, std::string_view format);

}  // namespace quire::jinja
