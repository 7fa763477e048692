// From code points to bytes: a class of characters becomes an expression over UTF-8, or over the ways in which JSON
// strings spell a character. Of those only the usual ones count: an ASCII character that needs no escape is written as
// itself (never \u0041 or \/), one that needs it by its letter or \u00XX, everything else raw or as \uXXXX. So every
// string has few spellings, literals are forced byte by byte, and an expression over spellings means the same as one
// over texts.
#pragma once
#include <map>
#include <string_view>

#include "text/grammar/rx.h"
#include "text/regex/char_set.h"

namespace quire::grammar {

enum class Spelling : uint8_t { utf8, json };

class CharCoder {
 public:
  CharCoder(RxStore& store, Spelling spelling) : store_(store), spelling_(spelling) {}

  Rx one_of(const CharSet& set);  // one character of the set; surrogates are no characters
  Rx any() { return one_of(CharSet{{0, CharSet::kLast}}); }
  Rx text(std::string_view utf8);  // exactly this text; malformed bytes count as U+FFFD
  RxStore& store() { return store_; }

 private:
  using Ranges = std::vector<CharSet::Range>;
  Rx digits(const Ranges& ranges, int n_digits);
  Rx utf8(const CharSet& set);
  Rx hex(const Ranges& ranges);
  Rx escapes(const CharSet& set);
  Rx pairs(const CharSet& set);

  RxStore& store_;
  const Spelling spelling_;
  std::map<Ranges, Rx> made_;
};

}  // namespace quire::grammar
