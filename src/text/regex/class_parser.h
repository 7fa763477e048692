// The part of the regex parser that reads one code point's worth of pattern: escapes and bracket classes.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/regex/char_set.h"

namespace quire {

class ClassParser {
 public:
  ClassParser(std::string_view pattern, bool ecma) : pattern_(pattern), ecma_(ecma) {}

  bool done() const { return at_ >= pattern_.size(); }
  char peek() const { return pattern_[at_]; }
  bool looking_at(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool accept(std::string_view text) {
    if (!looking_at(text)) return false;
    at_ += text.size();
    return true;
  }
  void skip() { ++at_; }
  // Whether {m}, {m,} or {m,n} is next; any other { stands for itself in the dialect of JSON Schema.
  bool at_count() const;

  // REQUIRES peek() == '\\'.
  Result<CharSet> escape(bool caseless);
  // REQUIRES peek() == '['. Nested classes may be kMaxRegexDepth deep.
  Result<CharSet> bracket(bool caseless);
  // One literal code point.
  Result<CharSet> literal(bool caseless);

  tl::unexpected<Error> unsupported(const std::string& what) const;
  tl::unexpected<Error> invalid(const std::string& what) const;

 private:
  struct Class {  // one open bracket
    CharSet left, now;
    bool negated = false, has_left = false;
  };
  Result<CharSet> property(bool negated);
  Result<char32_t> hex_escape();
  Result<char32_t> ecma_escape_pair(char32_t high);
  Result<CharSet> ecma_escape(char c);
  Result<CharSet> class_item(bool caseless);
  static CharSet close(Class& c);

  std::string_view pattern_;
  bool ecma_ = false;
  size_t at_ = 0;
};

}  // namespace quire
