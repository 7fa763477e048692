// A piece of text as tokens where other text stands in front of it: tokenizers look at what is before a word, and some
// put a space in front of the first one.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace quire {

class Tokenizer;

// `text` up to the end of its last whole code point; bytes that can never become one are whole.
std::string_view whole_code_points(std::string_view text);

// The tokens of `text` behind `before`, a few words from the start of a token on. Where the tokenizer would make one
// token of the end of the one and the start of the other, or does not give back what it was given, a text stands in for
// `before` with which nothing grows together; nullopt where that is no help either.
std::optional<std::vector<Token>> encode_behind(const Tokenizer& tokenizer,
                                                std::string_view before,
                                                std::string_view text);

}  // namespace quire
