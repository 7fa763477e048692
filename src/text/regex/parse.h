// The regular expressions of pre-tokenizers, as a tree. The dialect is what tokenizer.json, tiktoken and GGUF names
// really use: literals, classes (\p{..}, nested, &&), groups, (?i:…), greedy, lazy and possessive counts, $, and
// lookahead for one class. Anything else is refused with Code::unsupported, so that the caller can try PCRE2.
// A second dialect is that of JSON Schema (ECMA-262 with the flag u, but as lenient about needless escapes as
// validators are): ^, any lookahead, ASCII \d and \w, named groups, large counts; its trees are for text/grammar, no
// matcher here takes them.
#pragma once
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/regex/char_set.h"

namespace quire {

struct RegexNode {
  enum class Kind : uint8_t { set, concat, alternate, repeat, look, begin, ahead };
  Kind kind = Kind::concat;
  int set = -1;               // set, look: index into sets
  bool at_end = false;        // look: also true at the end of the text
  bool negative = false;      // ahead: what follows must not match
  int min = 0, max = 0;       // repeat; max −1: no limit
  bool lazy = false;          // repeat
  bool possessive = false;    // repeat
  std::vector<int> children;  // concat, alternate: any number; repeat, ahead: one
};

struct RegexTree {
  std::vector<RegexNode> nodes;
  std::vector<CharSet> sets;
  int root = -1;
};

struct RegexDialect {
  bool dollar_before_newline =
      false;  // $ also matches before "\n" (Oniguruma, so tokenizer.json); else only at the end
  bool ecma = false;
};

inline constexpr int kMaxRegexDepth = 32;    // nested groups
inline constexpr int kMaxRegexCount = 1024;  // in {m,n}
inline constexpr int kMaxEcmaCount = 1'000'000'000;
inline constexpr size_t kMaxRegexSets = 256;  // classes and literals
inline constexpr size_t kMaxEcmaSets = 16384;
inline constexpr size_t kMaxRegexSize = 16384;  // bytes of a pattern

// Errors: Code::unsupported for what the dialect lacks, Code::invalid for what no dialect allows; both name the offset.
Result<RegexTree> parse_regex(std::string_view pattern, RegexDialect dialect);

}  // namespace quire
