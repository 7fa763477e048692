// Numbers, words and characters of arguments that are not written as JSON, told as JSON.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// What a number or a word is made of.
bool in_scalar(char c);
// A number, True, False, None or null, also as JSON spells them; empty where it is none.
std::string json_scalar(std::string_view text);
// A character of a string as \uXXXX. REQUIRES a code point.
std::string json_escape(uint32_t code);

}  // namespace quire
