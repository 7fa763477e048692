// The formats of strings that are kept, as patterns.
#pragma once
#include <string_view>

namespace quire::grammar {

// Empty where the format is not known.
std::string_view format_pattern(std::string_view name);

}  // namespace quire::grammar
