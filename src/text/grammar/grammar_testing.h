// For tests: a vocabulary of single bytes, and whether a text is one of a grammar's.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace quire {

inline constexpr Token kByteEnd = 256, kByteControl = 257, kByteControl2 = 258;

// Every byte by its number, then the end of an answer and two control tokens.
inline const std::shared_ptr<const TokenTrie>& byte_vocabulary() {
  static const auto trie = [] {
    std::vector<std::string> tokens;
    for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
    tokens.insert(tokens.end(), {"</s>", "", ""});
    return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<Token>{kByteEnd}, 259);
  }();
  return trie;
}

inline bool takes(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Matcher m(grammar, byte_vocabulary());
  return m.accept_text(text).has_value() && m.may_end();
}

using MadeGrammar = Result<std::shared_ptr<const Grammar>>;

// Of what was compiled: its error fails the test.
inline bool takes(const MadeGrammar& made, std::string_view text) {
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made && takes(*made, text);
}
inline std::string error_of(const MadeGrammar& made) { return made ? "compiled" : made.error().message; }

}  // namespace quire
