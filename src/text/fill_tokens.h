// The control tokens that models for fill-in-the-middle were trained with.
#pragma once
#include "text/tokenizer.h"

namespace quire {

// -1: the vocabulary has none.
struct FillTokens {
  Token prefix = -1, suffix = -1, middle = -1, file = -1;
  bool complete() const { return prefix >= 0 && suffix >= 0 && middle >= 0; }
};
// By the names that families of models give them. Looks at the whole vocabulary.
FillTokens find_fill_tokens(const Tokenizer& tokenizer);

}  // namespace quire
