// See scanner.h.
#include "text/grammar/scanner.h"

namespace quire::grammar {

Result<uint32_t> Scanner::number(uint32_t most) {
  const std::string_view digits = take_while([](char c) { return c >= '0' && c <= '9'; });
  if (digits.empty()) return error("a number is missing");
  uint64_t value = 0;
  for (const char c : digits) {
    value = value * 10 + static_cast<uint64_t>(c - '0');
    if (value > most) return error("a number above " + std::to_string(most));
  }
  return static_cast<uint32_t>(value);
}

Result<char32_t> Scanner::hex(int min_digits, int max_digits) {
  char32_t value = 0;
  int n = 0;
  for (; n < max_digits && !done(); ++n, ++at_) {
    const char c = peek(), lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<char32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<char32_t>(lower - 'a' + 10);
    } else {
      break;
    }
  }
  if (n < min_digits) return error("too few hexadecimal digits");
  if (value > CharSet::kLast || (value >= 0xD800 && value <= 0xDFFF)) return error("no character has this number");
  return value;
}

Result<char32_t> Scanner::character() {
  if (done()) return error("it ends too early");
  if (hash_numbers_ && accept("#x")) return hex(1, 6);
  if (!accept("\\")) {
    const CodePoint c = utf8_at(text_, at_);
    if (!c.valid) return error("malformed UTF-8");
    at_ += static_cast<size_t>(c.len);
    return c.value;
  }
  if (done()) return error("\\ at the end");
  switch (const char c = text_[at_++]) {
    case 'n': return U'\n';
    case 'r': return U'\r';
    case 't': return U'\t';
    case 'f': return U'\f';
    case 'v': return U'\v';
    case '0': return U'\0';
    case 'x': return hex(2, 2);
    case 'u': return hex(4, 4);
    case 'U': return hex(8, 8);
    default:
      if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') {
        --at_;
        return error(std::string("there is no escape \\") + c);
      }
      --at_;
      const CodePoint point = utf8_at(text_, at_);
      at_ += static_cast<size_t>(point.len);
      return point.value;
  }
}

Result<std::string> Scanner::quoted(char quote) {
  std::string out;
  const std::string_view mark(&quote, 1);
  while (!accept(mark)) {
    if (done()) return error("a literal without its closing quote");
    if (peek() == '#') {  // never a number here
      out += '#';
      ++at_;
      continue;
    }
    QR_TRY(const char32_t c, character());
    append_utf8(out, c);
  }
  return out;
}

Result<CharSet> Scanner::char_class() {
  const bool negated = accept("^");
  CharSet set;
  while (!accept("]")) {
    if (done()) return error("[ without ]");
    QR_TRY(const char32_t first, character());
    char32_t last = first;
    const size_t here = at_;
    if (accept("-")) {
      if (peek() == ']') {
        at_ = here;
      } else {
        QR_TRY(last, character());
      }
    }
    if (last < first) return error("a range out of order");
    set.add(first, last);
  }
  return negated ? set.negated() : set;
}

}  // namespace quire::grammar
