// Finds the matches of a pre-tokenizer's pattern. Patterns of the known dialect run on the linear-time engine (dfa.h);
// the others on PCRE2's JIT compiler with a limit on steps, after which the rest of the text is one piece.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_range.h"
#include "text/regex/parse.h"

namespace quire {

class RegexMatcher {
 public:
  virtual ~RegexMatcher() = default;
  // Appends all matches, left to right, not overlapping; empty ones too. Linear in the text. False when an engine gave
  // up (steps, memory): what it had found until then is there, the rest of the text counts as one piece. Thread-safe.
  virtual bool find_all(std::string_view text, std::vector<ByteRange>& out) const = 0;
};

// Errors: Code::invalid when the pattern is none; Code::unsupported when no engine has what it uses.
Result<std::unique_ptr<RegexMatcher>> make_matcher(std::string_view pattern, RegexDialect dialect);
// PCRE2 alone: the oracle of the tests.
Result<std::unique_ptr<RegexMatcher>> make_pcre_matcher(std::string_view pattern, RegexDialect dialect);
// Every occurrence of a literal. REQUIRES !text.empty().
std::unique_ptr<RegexMatcher> make_literal_matcher(std::string text);

}  // namespace quire
