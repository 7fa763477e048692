// How a chat's earlier turns were written when they were the last ones: a template may write a turn otherwise once
// another follows it, and then what was cached for it is not found. Plain values; any thread.
#pragma once
#include <span>
#include <vector>

#include "serve/messages.h"

namespace quire {

// What was sent for the answer that is message `message` now, where the prompt of today does not begin with it.
struct EarlierTurn {
  int message = 0;
  int n_same = 0;           // tokens that both begin with
  std::vector<Token> then;  // what followed these then, kThenTokens at most
};
inline constexpr size_t kThenTokens = 32;

// Of the assistant's messages the last n_explained_turns: each is rendered once more. What the template refuses is left
// out. `prompt`: all of `messages` as they are rendered now.
std::vector<EarlierTurn> find_earlier_turns(Json messages,
                                            const ChatOptions& options,
                                            std::span<const Token> prompt,
                                            const ServeEnv& env);

}  // namespace quire
