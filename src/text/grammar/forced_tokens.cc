// See forced_tokens.h.
#include "text/grammar/forced_tokens.h"

#include <algorithm>
#include <optional>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace quire {
namespace {

// Up to the last code point that is whole: what is left of one could be cut in any way.
std::string_view whole_code_points(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const CodePoint c = utf8_at(text, i);
    if (!c.valid && text.size() - i < 4) break;
    i += static_cast<size_t>(c.len);
  }
  return text.substr(0, std::min(i, text.size()));
}

// The tokens of `text` behind `before`. Nothing where one would hold of both, or where the tokenizer does not give back
// what it was given.
std::optional<std::vector<Token>> cut_behind(const TokenTrie& vocabulary,
                                             const Tokenizer& tokenizer,
                                             std::string_view before,
                                             std::string_view text) {
  const std::string all = std::string(before) + std::string(text);
  std::vector<Token> ids;
  if (!tokenizer.encode(all, {}, ids)) return std::nullopt;
  size_t at = 0, first = ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!vocabulary.known(ids[i])) return std::nullopt;
    const std::string& bytes = vocabulary.bytes(ids[i]);
    std::string_view part = bytes;
    // A space that encoding put in front.
    if (i == 0 && tokenizer.strips_leading_space() && part.starts_with(' ') && !all.starts_with(part)) {
      if (before.empty()) return std::nullopt;
      part.remove_prefix(1);
    }
    if (at == before.size() && first == ids.size()) first = i;
    if (!std::string_view(all).substr(at).starts_with(part)) return std::nullopt;
    at += part.size();
  }
  if (at != all.size() || first == ids.size()) return std::nullopt;
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first));
  return ids;
}

// A text that nothing grows together with stands in where what came before does.
std::vector<Token> cut(const TokenTrie& vocabulary,
                       const Tokenizer& tokenizer,
                       std::string_view before,
                       std::string_view text) {
  for (const std::string_view behind : {before, std::string_view("\n"), std::string_view()}) {
    if (auto ids = cut_behind(vocabulary, tokenizer, behind, text)) return std::move(*ids);
  }
  return {};
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
