#include "text/jinja/string_literal.h"

#include <charconv>

#include "text/utf8.h"

namespace quire::jinja {
namespace {

Status append_checked(std::string& out, uint32_t cp) {
  if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
    return fail(Code::invalid, "an escape in a string is no character");
  append_utf8(out, cp);
  return {};
}

// The escape letters that stand for one character.
char simple_escape(char c) {
  switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'a': return '\a';
    case 'b': return '\b';
    case 'f': return '\f';
    case 'v': return '\v';
    case '\\':
    case '\'':
    case '"': return c;
    default: return '\0';
  }
}

size_t hex_digits(char c) { return c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0; }

}  // namespace

Result<std::string> decode_string_literal(std::string_view body) {
  std::string out;
  out.reserve(body.size());
  for (size_t at = 0; at < body.size();) {
    const char next = body[at] == '\\' && at + 1 < body.size() ? body[at + 1] : '\0';
    if (body[at] != '\\' || next == '\0') {
      out += body[at++];
      continue;
    }
    at += 2;
    if (next == '\n') continue;
    if (const char plain = simple_escape(next)) {
      out += plain;
    } else if (const size_t n = hex_digits(next)) {
      uint32_t cp = 0;
      const std::string_view digits = body.substr(at, n);
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), cp, 16);
      if (digits.size() < n || parsed.ptr != digits.data() + n)
        return fail(Code::invalid, "an escape in a string is cut");
      QR_TRY_VOID(append_checked(out, cp));
      at += n;
    } else if (next >= '0' && next <= '7') {
      uint32_t cp = 0;
      const std::string_view digits = body.substr(at - 1, 3);
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), cp, 8);
      at = at - 1 + static_cast<size_t>(parsed.ptr - digits.data());
      QR_TRY_VOID(append_checked(out, cp));
    } else if (next == 'N') {
      return fail(Code::invalid, "character names in strings (\\N) are not supported");
    } else {
      out += '\\';
      at -= 1;
    }
  }
  return out;
}

}  // namespace quire::jinja
