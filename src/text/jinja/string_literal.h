// The escapes of Python's string literals.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::jinja {

// The text between the quotes, decoded: \n \t \\ \' \" \xHH \uXXXX \UXXXXXXXX, octal, backslash-newline. An unknown
// escape stays as it is. Code::invalid for an unfinished escape, \N{…}, and code points that are no characters.
Result<std::string> decode_string_literal(std::string_view body);

}  // namespace quire::jinja
