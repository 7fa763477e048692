// How many tokens a model may think, and how its thinking ends (sample/rules/thinking_budget.cc). Immutable; shared.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/grammar/token_trie.h"

namespace quire {

struct ThinkingBudget {
  int n_tokens = 0;     // between the marks
  std::string field{};  // of the request that asked for it, as errors name it
  // The marks around thoughts, and the tokens that stand for them alone: control tokens, whose text nobody else can
  // spell; −1 where the text counts, whatever spells it.
  std::string open{}, close{};
  Token open_id = -1, close_id = -1;
  std::vector<Token> closing{};                   // what is written when the budget is spent, not empty
  std::shared_ptr<const TokenTrie> vocabulary{};  // null: read from a recording; then it has no effect
};

}  // namespace quire
