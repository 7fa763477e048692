// See forced_tokens.h.
#include "text/grammar/forced_tokens.h"

#include <algorithm>

#include "text/encode_behind.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

// None where the vocabulary does not know one of them.
std::vector<Token> cut(const TokenTrie& vocabulary,
                       const Tokenizer& tokenizer,
                       std::string_view before,
                       std::string_view text) {
  auto ids = encode_behind(tokenizer, before, text);
  if (!ids || !std::ranges::all_of(*ids, [&](Token id) { return vocabulary.known(id); })) return {};
  return std::move(*ids);
}

// How many of the tokens, which are `text`, no longer one could take the place of. The matcher stands before them.
size_t n_certain(Matcher& matcher, const TokenTrie& vocabulary, std::span<const Token> ids, std::string_view text) {
  if (!matcher.accept_text(text)) return 0;
  size_t n = 0;
  std::string_view held = text;
  for (; n < ids.size(); ++n) {
    if (held.size() <= vocabulary.longest() && matcher.may_be_longer(held)) break;
    held.remove_prefix(vocabulary.bytes(ids[n]).size());
  }
  matcher.rollback(1);
  return n;
}

}  // namespace

std::vector<Token> forced_tokens(
    Matcher& matcher, const TokenTrie& vocabulary, const Tokenizer& tokenizer, std::string before, size_t most) {
  std::vector<Token> out;
  const size_t start = matcher.accepted();
  while (out.size() < most) {
    const std::string forced = matcher.forced_bytes(kForcedBytes);
    if (forced.empty()) {
      const Token control = matcher.forced_control();
      if (control < 0 || !matcher.accept(control)) break;
      out.push_back(control);
      before.clear();
      continue;
    }
    const std::string_view text = whole_code_points(forced);
    const std::vector<Token> ids = cut(vocabulary, tokenizer, before, text);
    const size_t n_sure = n_certain(matcher, vocabulary, ids, text);
    size_t n = 0;
    while (n < n_sure && out.size() < most && matcher.accept(ids[n])) out.push_back(ids[n++]);
    if (n == 0 || n < ids.size() || text.size() < forced.size()) break;
    before = text;
  }
  matcher.rollback(matcher.accepted() - start);
  return out;
}

}  // namespace quire
