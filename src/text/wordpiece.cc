// See wordpiece.h.
#include "text/wordpiece.h"

#include "text/utf8.h"

namespace quire {

namespace {

ByteTrie trie_of(const std::vector<std::pair<std::string, Token>>& pieces) {
  std::vector<ByteTrie::Entry> entries;
  for (const auto& [text, id] : pieces) entries.emplace_back(text, id);
  return ByteTrie(std::move(entries));
}

}  // namespace

WordPiece::WordPiece(const WordPieceSpec& spec)
    : starts_(trie_of(spec.starts)), continues_(trie_of(spec.continues)), unk_(spec.unk), max_chars_(spec.max_chars) {}

void WordPiece::encode(std::string_view word, std::vector<Token>& out) const {
  const size_t before = out.size();
  size_t n_chars = 0;
  for (size_t i = 0; i < word.size(); ++n_chars) i += static_cast<size_t>(utf8_at(word, i).len);
  bool covered = n_chars <= max_chars_;
  for (size_t i = 0; covered && i < word.size();) {
    const ByteTrie::Match m = (i == 0 ? starts_ : continues_).longest(word.substr(i));
    covered = m.len > 0;
    if (covered) out.push_back(m.value);
    i += m.len;
  }
  if (covered) return;
  out.resize(before);
  if (unk_ >= 0) out.push_back(unk_);
}

}  // namespace quire
