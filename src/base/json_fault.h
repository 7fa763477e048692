// Where a text stops being JSON: simdjson, which parses (json.h), says what is wrong but not where. Any thread.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace quire {

// Bytes before the first that JSON does not allow there (of a wrong word before the word), all of them when the text
// ends too early; nothing where this parser (Boost.JSON) finds no fault, or comes to kMaxJsonDepth before it does.
// Reads the text once and keeps nothing of it.
std::optional<size_t> json_fault(std::string_view text);

}  // namespace quire
