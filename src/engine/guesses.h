// Leading a sequence's rules along guesses. Engine thread.
#pragma once
#include <span>

#include "engine/sequence.h"

namespace quire {

// All rules take it, or none: what a rule throws is passed on, and those before it have given the token back.
void accept_guess(Sequence& seq, Token id);
// How many of the guesses its rules can follow, from the first on; the rules are where they were afterwards.
size_t n_followed(Sequence& seq, std::span<const Token> guesses);

}  // namespace quire
