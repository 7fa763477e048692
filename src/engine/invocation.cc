#include "engine/invocation.h"

#include <vector>

namespace quire {

int tokens_before_invocation(std::span<const Token> prompt, std::span<const Token> invocation) {
  if (invocation.empty()) return 0;
  // Of the invocation's first i + 1 tokens, how many at their end are its first ones too; fewer than all of them.
  std::vector<size_t> borders(invocation.size());
  const auto next = [&](size_t n, Token token) {
    while (n == invocation.size() || (n > 0 && invocation[n] != token)) n = borders[n - 1];
    return n + (invocation[n] == token ? 1 : 0);
  };
  for (size_t i = 1; i < invocation.size(); ++i) borders[i] = next(borders[i - 1], invocation[i]);
  int out = kNotInvoked;
  size_t n = 0;
  for (size_t i = 0; i < prompt.size(); ++i) {
    n = next(n, prompt[i]);
    if (n == invocation.size()) out = static_cast<int>(i + 1 - n);
  }
  return out;
}

}  // namespace quire
