// UTF-8, one code point at a time, for text that nobody has checked. Every reader in this room steps through bytes with
// utf8_at(), so all of them agree on where a malformed byte ends: a byte that starts no well-formed sequence is a unit
// of its own (length 1, not valid). Well-formed is Unicode 15 table 3-7: no overlong forms, no surrogates.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

struct CodePoint {
  char32_t value = 0;  // kReplacement where !valid
  int len = 0;         // bytes, 1..4
  bool valid = false;
};

// The range that the second byte of a sequence may have, by its lead byte; the rest is always 80..BF.
struct SecondByte {
  uint8_t low = 0x80, high = 0xBF;
};
inline SecondByte second_byte_range(uint8_t lead) {
  switch (lead) {
    case 0xE0: return {0xA0, 0xBF};
    case 0xED: return {0x80, 0x9F};
    case 0xF0: return {0x90, 0xBF};
    case 0xF4: return {0x80, 0x8F};
    default: return {};
  }
}

// Length that a lead byte announces; 0 for a byte that cannot start a sequence.
inline int utf8_length(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// The code point that starts at s[i]. REQUIRES i < s.size().
inline CodePoint utf8_at(std::string_view s, size_t i) {
  const auto lead = static_cast<uint8_t>(s[i]);
  if (lead < 0x80) return {lead, 1, true};
  const int len = utf8_length(lead);
  if (len == 0 || s.size() - i < static_cast<size_t>(len)) return {kReplacement, 1, false};
  const SecondByte range = second_byte_range(lead);
  char32_t cp = lead & (0xFFu >> (len + 1));
  for (int k = 1; k < len; ++k) {
    const auto b = static_cast<uint8_t>(s[i + static_cast<size_t>(k)]);
    const uint8_t low = k == 1 ? range.low : 0x80, high = k == 1 ? range.high : 0xBF;
    if (b < low || b > high) return {kReplacement, 1, false};
    cp = cp << 6 | (b & 0x3Fu);
  }
  return {cp, len, true};
}

// Start of the last code point of s. REQUIRES !s.empty().
inline size_t last_code_point(std::string_view s) {
  size_t i = s.size() - 1;
  for (int back = 0; i > 0 && back < 3 && (static_cast<uint8_t>(s[i]) & 0xC0) == 0x80; ++back) --i;
  const CodePoint c = utf8_at(s, i);
  return c.valid && i + static_cast<size_t>(c.len) == s.size() ? i : s.size() - 1;
}

// Appends cp as UTF-8. REQUIRES cp ≤ 0x10FFFF and no surrogate.
inline void append_utf8(std::string& out, char32_t cp) {
  const auto put = [&out](uint32_t b) { out.push_back(static_cast<char>(static_cast<uint8_t>(b))); };
  if (cp < 0x80) {
    put(cp);
  } else if (cp < 0x800) {
    put(0xC0 | cp >> 6);
    put(0x80 | (cp & 0x3F));
  } else if (cp < 0x10000) {
    put(0xE0 | cp >> 12);
    put(0x80 | (cp >> 6 & 0x3F));
    put(0x80 | (cp & 0x3F));
  } else {
    put(0xF0 | cp >> 18);
    put(0x80 | (cp >> 12 & 0x3F));
    put(0x80 | (cp >> 6 & 0x3F));
    put(0x80 | (cp & 0x3F));
  }
}

// Code points of a literal or of a token, malformed bytes as kReplacement.
inline std::u32string to_code_points(std::string_view s) {
  std::u32string out;
  for (size_t i = 0; i < s.size();) {
    const CodePoint c = utf8_at(s, i);
    out.push_back(c.value);
    i += static_cast<size_t>(c.len);
  }
  return out;
}

}  // namespace quire
