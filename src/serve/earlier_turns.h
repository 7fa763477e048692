// How a chat's earlier turns were written when they were the last ones: a template may write a turn otherwise once
// another follows it, and then what was cached for it is not found. And where its messages end in the prompt of today.
// Plain values; any thread.
#pragma once
#include <span>
#include <string>
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

// Where a message ends in the prompt.
struct MessageEnd {
  int message = 0;
  std::string role;
  int n_tokens = 0;  // of the prompt, up to there
};

struct EarlierChat {
  std::vector<EarlierTurn> turns;
  std::vector<MessageEnd> ends;  // in order
};

// Of the assistant's messages the last n_explained_turns: each is rendered once more. What the template refuses is left
// out. `prompt`: all of `messages` as they are rendered now.
std::vector<EarlierTurn> find_earlier_turns(Json messages,
                                            const ChatOptions& options,
                                            std::span<const Token> prompt,
                                            const ServeEnv& env);

// Of the last 2 · n_explained_turns messages: each is rendered with those before it. Left out are those that the
// template refuses so, or writes otherwise than in `prompt`.
std::vector<MessageEnd> find_message_ends(Json messages,
                                          const ChatOptions& options,
                                          std::span<const Token> prompt,
                                          const ServeEnv& env);

// The message in which that token of the prompt lies; null where it is not known, and behind the last one.
const MessageEnd* message_at(std::span<const MessageEnd> ends, int token);

}  // namespace quire
