// Text as Python sees it: strings are UTF-8 here, indices and lengths in templates count code points.
// All functions take valid UTF-8 (templates and inputs are checked at the door) and are linear. Pure, any thread.
// Case mapping is the simple one of Unicode 15 plus the ligatures and sharp s that grow when they are put in capitals.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/utf8.h"

namespace quire::jinja {

bool is_valid_utf8(std::string_view text);

// The code point at `at`, which moves past it. REQUIRES at < text.size().
inline char32_t next_code_point(std::string_view text, size_t& at) {
  const CodePoint c = utf8_at(text, at);
  at += static_cast<size_t>(c.len);
  return c.value;
}

size_t count_code_points(std::string_view text);
// The byte where code point number `index` starts; text.size() when there are fewer.
size_t byte_of_code_point(std::string_view text, size_t index);

bool is_space(char32_t cp);      // str.isspace
bool is_printable(char32_t cp);  // str.isprintable
bool is_alpha(char32_t cp);      // str.isalpha
bool is_decimal(char32_t cp);    // str.isdecimal
bool is_digit(char32_t cp);      // str.isdigit
bool is_upper(char32_t cp);
bool is_lower(char32_t cp);

void append_upper(std::string& out, char32_t cp);
void append_lower(std::string& out, char32_t cp);
void append_title(std::string& out, char32_t cp);

// Where `needle` first occurs at or after `from`, npos when it does not. Linear whatever the texts are (two-way
// search), which std::string_view::find is not.
size_t find_bytes(std::string_view text, std::string_view needle, size_t from);
// Where `needle` occurs, not overlapping, seen from the end: at most `limit` places, last first. REQUIRES needle not
// empty.
std::vector<size_t> find_from_end(std::string_view text, std::string_view needle, size_t limit);

// The bytes that remain when white space (or any code point of `chars`) is taken off the ends.
struct Ends {
  bool left = true;
  bool right = true;
};
std::string_view strip_space(std::string_view text, Ends ends);
std::string_view strip_chars(std::string_view text, std::string_view chars, Ends ends);

}  // namespace quire::jinja
