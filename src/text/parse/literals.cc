#include "text/parse/literals.h"

#include <cstdio>
#include <utility>

#include "base/json.h"

namespace quire {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Without what Python lets a number have and JSON does not: a plus, underscores, a point at its end or beginning.
std::string json_number(std::string_view text) {
  std::string out;
  if (text.starts_with('+')) text.remove_prefix(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool behind = i > 0 && is_digit(text[i - 1]), before = i + 1 < text.size() && is_digit(text[i + 1]);
    if (c == '_' && behind && before) continue;
    if (c == '.' && !behind && before) out += '0';
    out += c;
    if (c == '.' && behind && !before) out += '0';
  }
  return out;
}

}  // namespace

bool in_scalar(char c) {
  return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '+' || c == '-' || c == '.';
}

std::string json_scalar(std::string_view text) {
  for (const auto& [python, json] : {std::pair{"True", "true"}, {"False", "false"}, {"None", "null"}})
    if (text == python || text == json) return json;
  std::string out = json_number(text);
  const auto read = Json::parse(out);
  return read && (read->as_int() != nullptr || read->as_double() != nullptr) ? out : "";
}

std::string json_escape(uint32_t code) {
  const auto unit = [](uint32_t n) {
    char out[8];
    std::snprintf(out, sizeof out, "\\u%04x", n & 0xFFFFU);
    return std::string(out);
  };
  if (code < 0x10000) return unit(code);
  return unit(0xD800 + ((code - 0x10000) >> 10)) + unit(0xDC00 + ((code - 0x10000) & 0x3FF));
}

}  // namespace quire
