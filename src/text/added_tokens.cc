// See added_tokens.h. A special token that the caller did not ask for still covers its text: nothing inside it matches,
// which is also the reference's rule.
#include "text/added_tokens.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace quire {

namespace {

bool touches_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word(utf8_at(text, last_code_point(text.substr(0, begin))).value)) return true;
  return end < text.size() && is_word(utf8_at(text, end).value);
}

size_t skip_space_left(std::string_view text, size_t from, size_t stop) {
  while (from > stop) {
    const size_t at = last_code_point(text.substr(0, from));
    if (at < stop || !is_space(utf8_at(text, at).value)) break;
    from = at;
  }
  return from;
}

size_t skip_space_right(std::string_view text, size_t from) {
  while (from < text.size()) {
    const CodePoint c = utf8_at(text, from);
    if (!is_space(c.value)) break;
    from += static_cast<size_t>(c.len);
  }
  return from;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::vector<ByteTrie::Entry> entries;
  for (size_t i = 0; i < tokens_.size(); ++i) entries.emplace_back(tokens_[i].text, static_cast<int32_t>(i));
  trie_ = ByteTrie(std::move(entries));
}

const AddedToken* AddedTokens::match(std::string_view text, size_t at, size_t& len) const {
  const ByteTrie::Match m = trie_.longest(text.substr(at));
  if (m.value == ByteTrie::kNone) return nullptr;
  len = m.len;
  return &tokens_[static_cast<size_t>(m.value)];
}

void AddedTokens::split(std::string_view text,
                        bool parse_special,
                        std::vector<Fragment>& out,
                        std::span<const ByteRange> plain) const {
  size_t done = 0;
  const auto is_plain = [&](size_t begin, size_t end) {  // begin never falls
    while (!plain.empty() && plain.front().end <= begin) plain = plain.subspan(1);
    return !plain.empty() && plain.front().begin < end;
  };
  const auto plain_until = [&](size_t end) {
    if (end > done) out.push_back({text.substr(done, end - done), -1});
  };
  for (size_t i = 0; i < text.size();) {
    size_t len = 0;
    const AddedToken* token = trie_.may_start(text[i]) ? match(text, i, len) : nullptr;
    if (token == nullptr) {
      ++i;
      continue;
    }
    size_t begin = i, end = i + len;
    i = end;
    if (token->special && (!parse_special || is_plain(begin, end))) continue;
    if (token->single_word && touches_word(text, begin, end)) continue;
    if (token->strip_left) begin = skip_space_left(text, begin, done);
    if (token->strip_right) end = skip_space_right(text, end);
    plain_until(begin);
    out.push_back({text.substr(begin, end - begin), token->id});
    done = i = end;
  }
  plain_until(text.size());
}

}  // namespace quire
