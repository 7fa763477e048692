// Marks in text that comes in pieces.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

// How many bytes at the end of `text` may be the beginning of `mark`, or, where none may, are no whole character yet.
size_t held_bytes(std::string_view text, std::string_view mark);
// `text` as it stands in a JSON string.
void append_inside_string(std::string& json, std::string_view text);

}  // namespace quire
