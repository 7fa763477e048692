// Reading a notation character by character: what the parsers of grammars share.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/grammar/rx_chars.h"
#include "text/utf8.h"

namespace quire::grammar {

class Scanner {
 public:
  // `hash_numbers`: #xN is a character outside of literals.
  Scanner(std::string_view text, std::string_view notation, bool hash_numbers)
      : text_(text), notation_(notation), hash_numbers_(hash_numbers) {}

  bool done() const { return at_ >= text_.size(); }
  size_t at() const { return at_; }
  void go_to(size_t at) { at_ = std::min(at, text_.size()); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  bool looking_at(std::string_view s) const { return text_.substr(at_).starts_with(s); }
  bool accept(std::string_view s) {
    if (!looking_at(s)) return false;
    at_ += s.size();
    return true;
  }
  template <class F>
  std::string_view take_while(F&& fits) {
    const size_t from = at_;
    while (!done() && fits(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }
  tl::unexpected<Error> error(std::string_view what) const {
    return fail(Code::invalid, std::string(notation_) + ": " + std::string(what) + " at offset " + std::to_string(at_));
  }

  Result<uint32_t> number(uint32_t most);
  // One character of a literal or class, escapes of C and \x, \u, \U undone.
  Result<char32_t> character();
  // "text" or 'text', behind its opening quote.
  Result<std::string> quoted(char quote);
  // [a-z^…], behind the bracket.
  Result<CharSet> char_class();

 private:
  Result<char32_t> hex(int min_digits, int max_digits);

  std::string_view text_, notation_;
  bool hash_numbers_;
  size_t at_ = 0;
};

}  // namespace quire::grammar
