#include "engine/guesses.h"

#include <exception>

namespace quire {
namespace {

bool has_row_behind(const Sequence& seq, int way, int place) {
  if (way == kDraft) return place + 1 < seq.n_checked;
  const Branch& branch = seq.branches[way];
  return place - branch.n_shared < branch.n_checked;
}

bool same_before(const Sequence& seq, int a, int b, int place) {
  for (int i = 0; i < place; ++i) {
    if (guess_at(seq, a, i) != guess_at(seq, b, i)) return false;
  }
  return true;
}

}  // namespace

Token guess_at(const Sequence& seq, int way, int place) {
  const auto at = [](const std::vector<Token>& tokens, int i) {
    return i < std::ssize(tokens) ? tokens[static_cast<size_t>(i)] : -1;
  };
  if (way == kDraft) return at(seq.draft, place);
  const Branch& branch = seq.branches[way];
  return place < branch.n_shared ? at(seq.draft, place) : at(branch.tokens, place - branch.n_shared);
}

int way_on(const Sequence& seq, int way, int place, Token id) {
  const auto goes_on = [&](int other) {
    return guess_at(seq, other, place) == id && has_row_behind(seq, other, place) &&
           same_before(seq, way, other, place);
  };
  if (goes_on(way)) return way;
  // A branch's own rows alone are its own; what it shares is the draft's.
  for (int i = 0; i < seq.branches.size(); ++i) {
    if (seq.branches[i].n_shared <= place && goes_on(i)) return i;
  }
  return kNoWay;
}

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
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): what throws has not been taken
  }
  for (const auto& rule : seq.request.rules) rule->rollback(static_cast<int>(n));
  return n;
}

}  // namespace quire
