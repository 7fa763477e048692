// Ways through a sequence's guesses, and leading its rules along them. Engine thread.
#pragma once
#include <span>

#include "engine/sequence.h"

namespace quire {

// A way through the guesses: the draft (kDraft), or one of the branches, by number.
inline constexpr int kDraft = -1, kNoWay = -2;
// Its guess at a place; −1: it has none there.
Token guess_at(const Sequence& seq, int way, int place);
// A way that has the same guesses as `way` before a place and `id` there, and whose row behind that the rules have
// followed: `way` itself where it does; kNoWay: none.
int way_on(const Sequence& seq, int way, int place, Token id);

// All rules take it, or none: what a rule throws is passed on, and those before it have given the token back.
void accept_guess(Sequence& seq, Token id);
// How many of the guesses its rules can follow, from the first on; the rules are where they were afterwards.
size_t n_followed(Sequence& seq, std::span<const Token> guesses);

}  // namespace quire
