#include "engine/guesses.h"

#include <exception>

namespace quire {

void accept_guess(Sequence& seq, Token id) {
  size_t n = 0;
  try {
    for (; n < seq.request.rules.size(); ++n) seq.request.rules[n]->accept(id);
  } catch (...) {
    while (n > 0) seq.request.rules[--n]->rollback(1);
    throw;
  }
}

size_t n_followed(Sequence& seq, std::span<const Token> guesses) {
  size_t n = 0;
  try {
    for (; n < guesses.size(); ++n) accept_guess(seq, guesses[n]);
  } catch (const std::exception&) {
    // What throws has not been taken.
  }
  for (const auto& rule : seq.request.rules) rule->rollback(static_cast<int>(n));
  return n;
}

}  // namespace quire
