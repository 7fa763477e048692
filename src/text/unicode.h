// What the splitters and normalisers ask about a code point: Unicode 16, the version that the reference tokenizers use
// (utf8proc and PCRE2 in Debian are older, so their classes are not asked). ASCII never leaves the header.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

// General categories, in the order of the generated table.
enum class Category : uint8_t {
  cn,
  lu,
  ll,
  lt,
  lm,
  lo,
  mn,
  mc,
  me,
  nd,
  nl,
  no,
  pc,
  pd,
  ps,
  pe,
  pi,
  pf,
  po,
  sm,
  sc,
  sk,
  so,
  zs,
  zl,
  zp,
  cc,
  cf
};

namespace unicode_bits {
inline constexpr uint8_t kLetter = 1, kMark = 2, kNumber = 4, kPunct = 8, kSymbol = 16, kSpace = 32, kWord = 64;
}  // namespace unicode_bits

Category category(char32_t cp);
// The bits of unicode_bits: kSpace is the property White_Space, kWord is \w.
uint8_t unicode_class(char32_t cp);

// Runs of one category (start << 8 | category, or 30 / 31 for runs that alternate lu ll / ll lu), ascending.
std::span<const uint32_t> category_runs();
inline constexpr uint8_t kUpperLowerRun = 30, kLowerUpperRun = 31;
// Pairs first, last of the script Han.
std::span<const uint32_t> han_ranges();

inline bool is_space(char32_t cp) {
  if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
  return (unicode_class(cp) & unicode_bits::kSpace) != 0;
}
inline bool is_word(char32_t cp) {  // letters, marks, digits, letter numbers, connector punctuation, joiners
  if (cp < 0x80) return (cp | 0x20) - 'a' < 26 || cp - '0' < 10 || cp == '_';
  return (unicode_class(cp) & unicode_bits::kWord) != 0;
}

}  // namespace quire
