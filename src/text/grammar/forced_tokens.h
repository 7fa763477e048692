// What a grammar leaves no choice about, as tokens: the cut that the tokenizer itself makes of the forced text, for
// that is how models write. The end of the text is held back where a longer token could go on past it. A guess: the
// model may cut the same text otherwise.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/grammar.h"

namespace quire {

class Tokenizer;

// The most bytes of forced text that are looked at in one go.
inline constexpr size_t kForcedBytes = 1024;

// At most `most` tokens that may come next, each the only thing to come but for how its text is cut; empty where there
// is a choice at once. `before`: text in front of them, from the start of a token on and no more than a few words; it
// shows the tokenizer what it cuts behind. The matcher is where it was afterwards; `vocabulary` and `tokenizer` are of
// the same tokens as the matcher.
std::vector<Token> forced_tokens(
    Matcher& matcher, const TokenTrie& vocabulary, const Tokenizer& tokenizer, std::string before, size_t most);

}  // namespace quire
