// The linear-time engine for pre-tokenizer patterns. A pattern is compiled, when it is made, into one table over
// classes of code points; matching is a decode, a class look-up and a table step for each code point, with no way back
// and nothing shared that changes. The match is the one a backtracking engine would find (leftmost, preferred
// alternative first), because the states are ordered lists of threads; lookahead costs nothing, because whether a match
// ends at a position is decided one code point later. The idea is RE2's; PCRE2 is the oracle in the tests. Where much
// is read in vain, because matches fail or end far before what they had to look at, two_pass.h goes on.
#pragma once
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "text/byte_range.h"
#include "text/regex/nfa.h"
#include "text/regex/two_pass.h"

namespace quire {

class Dfa {
 public:
  // Code::unsupported when the table would exceed kMaxStates, or making it kMaxWork.
  static Result<Dfa> compile(const RegexTree& tree);

  static constexpr size_t kNoMatch = ~size_t{0};
  static constexpr size_t kMaxStates = 4096;
  static constexpr size_t kMaxClasses = 250;
  static constexpr size_t kMaxWork = size_t{1} << 26;  // instructions visited: a tenth of a second

  // Appends all matches, left to right, not overlapping; empty ones too. Malformed bytes count as U+FFFD each. Linear
  // in the text. False where that took more than TwoPass::kMaxWork: what is there was found until then.
  bool find_all(std::string_view text, std::vector<ByteRange>& out) const;
  // The same by the two passes alone, for tests.
  bool find_all_in_two_passes(std::string_view text, std::vector<ByteRange>& out) const {
    return search_from(0, text, out);
  }

 private:
  friend class DfaBuilder;
  struct Attempt {
    size_t end;     // of the match that begins there; kNoMatch when there is none. May be where it begins
    size_t n_read;  // bytes looked at
  };
  Attempt match_at(std::string_view text, size_t from) const;
  bool search_from(size_t from, std::string_view text, std::vector<ByteRange>& out) const;
  // A table entry: next state << 1 | a match ends before this code point. State 0 is dead.
  size_t cell(uint32_t state, uint32_t klass) const { return size_t{state} * n_classes_ + klass; }
  uint32_t class_of(char32_t cp) const { return pages_[page_of_[cp >> 8]][cp & 0xFF]; }

  std::array<uint8_t, 128> ascii_{};
  std::array<uint16_t, 0x1100> page_of_{};
  std::vector<std::array<uint8_t, 256>> pages_;
  std::vector<uint32_t> next_;
  std::vector<bool> may_start_;  // by class: a match can begin with it
  uint32_t n_classes_ = 0;       // the last one is "end of text"
  uint32_t start_ = 0;
  TwoPass two_pass_;
};

}  // namespace quire
