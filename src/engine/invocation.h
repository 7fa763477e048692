// Where in a prompt an activated adapter begins to add (Adapter::invocation). Pure function; any thread.
#pragma once
#include <limits>
#include <span>

#include "base/types.h"

namespace quire {

inline constexpr int kNotInvoked = std::numeric_limits<int>::max();

// The number of tokens before the last place where `prompt` has all of `invocation`, one after the other: the first of
// these is the first that the adapter adds to. kNotInvoked: it has them nowhere. 0 for an invocation of none. Time is
// linear in both, whatever they are. Source: Knuth, Morris and Pratt, "Fast Pattern Matching in Strings".
int tokens_before_invocation(std::span<const Token> prompt, std::span<const Token> invocation);

}  // namespace quire
