#include "text/jinja/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include <algorithm>

namespace quire::jinja {
namespace {

utf8proc_category_t category(char32_t cp) { return utf8proc_category(static_cast<utf8proc_int32_t>(cp)); }

bool is_tail(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Code points whose capital form is longer (Unicode's SpecialCasing, the ones that living languages use).
std::string_view long_upper(char32_t cp) {
  constexpr std::string_view kLigatures[] = {"FF", "FI", "FL", "FFI", "FFL", "ST", "ST"};
  if (cp == 0xdf) return "SS";
  if (cp >= 0xfb00 && cp <= 0xfb06) return kLigatures[cp - 0xfb00];
  return {};
}

// Start of the last code point of text[0, end).
size_t previous(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && is_tail(text[at])) --at;
  return at;
}

template <class Drop>  // bool(std::string_view code point)
std::string_view strip_if(std::string_view text, Ends ends, Drop drop) {
  size_t begin = 0;
  size_t end = text.size();
  while (ends.left && begin < end) {
    size_t next = begin;
    next_code_point(text, next);
    if (!drop(text.substr(begin, next - begin))) break;
    begin = next;
  }
  while (ends.right && end > begin) {
    const size_t at = previous(text, end);
    if (!drop(text.substr(at, end - at))) break;
    end = at;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = utf8_at(text, at);
    if (!c.valid) return false;
    at += static_cast<size_t>(c.len);
  }
  return true;
}

size_t count_code_points(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), is_tail));
}

size_t byte_of_code_point(std::string_view text, size_t index) {
  if (index >= text.size()) return text.size();
  size_t at = 0;
  while (at < text.size()) {
    if (!is_tail(text[at]) && index-- == 0) return at;
    ++at;
  }
  return at;
}

bool is_space(char32_t cp) {
  if (cp < 0x80) return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20);
  return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
         cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool is_printable(char32_t cp) {
  if (cp < 0x7f) return cp >= 0x20;
  switch (category(cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

bool is_alpha(char32_t cp) {
  const auto c = category(cp);
  return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
         c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t cp) { return category(cp) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t cp) {
  const bool raised = cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || cp == 0x2070 || (cp >= 0x2074 && cp <= 0x2079);
  return is_decimal(cp) || raised || (cp >= 0x2080 && cp <= 0x2089);
}

bool is_upper(char32_t cp) { return cp < 0x80 ? cp >= 'A' && cp <= 'Z' : category(cp) == UTF8PROC_CATEGORY_LU; }

bool is_lower(char32_t cp) { return cp < 0x80 ? cp >= 'a' && cp <= 'z' : category(cp) == UTF8PROC_CATEGORY_LL; }

void append_upper(std::string& out, char32_t cp) {
  if (cp < 0x80) {
    out += static_cast<char>(is_lower(cp) ? cp - 32 : cp);
    return;
  }
  const std::string_view special = long_upper(cp);
  if (special.empty()) {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(cp))));
  } else {
    out += special;
  }
}

void append_lower(std::string& out, char32_t cp) {
  if (cp < 0x80) {
    out += static_cast<char>(is_upper(cp) ? cp + 32 : cp);
  } else if (cp == 0x130) {
    out += "i\xCC\x87";  // the dot of the Turkish capital stays
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(cp))));
  }
}

void append_title(std::string& out, char32_t cp) {
  const std::string_view special = long_upper(cp);
  if (cp < 0x80) {
    append_upper(out, cp);
  } else if (!special.empty()) {
    out += special[0];
    for (const char c : special.substr(1)) append_lower(out, static_cast<char32_t>(c));
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(cp))));
  }
}

size_t find_bytes(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  if (needle.size() > text.size() - from) return std::string_view::npos;
  const void* hit = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return hit ? static_cast<size_t>(static_cast<const char*>(hit) - text.data()) : std::string_view::npos;
}

std::vector<size_t> find_from_end(std::string_view text, std::string_view needle, size_t limit) {
  // On reversed copies, because the two-way search runs forward only.
  const std::string mirrored(text.rbegin(), text.rend());
  const std::string wanted(needle.rbegin(), needle.rend());
  std::vector<size_t> hits;
  size_t at = 0;
  while (hits.size() < limit && (at = find_bytes(mirrored, wanted, at)) != std::string_view::npos) {
    at += wanted.size();
    hits.push_back(text.size() - at);
  }
  return hits;
}

std::string_view strip_space(std::string_view text, Ends ends) {
  return strip_if(text, ends, [](std::string_view c) {
    size_t at = 0;
    return is_space(next_code_point(c, at));
  });
}

std::string_view strip_chars(std::string_view text, std::string_view chars, Ends ends) {
  return strip_if(text, ends, [&](std::string_view c) { return chars.find(c) != std::string_view::npos; });
}

}  // namespace quire::jinja
