// See unigram.h. One table entry a byte, one walk down the trie from every character: the longest piece bounds the
// walk. Sums are formed in double and kept as Score, exactly as SentencePiece's optimised encoder does with float.
#include "text/unigram.h"

#include <algorithm>

#include "text/utf8.h"

namespace quire {

namespace {
constexpr double kUnkPenalty = 10.0;

template <class Score>
struct Node {
  Score score = 0;
  uint32_t len = 0;  // of the piece that ends here; 0: no path yet
  Token id = -1;
};
}  // namespace

Unigram::Unigram(UnigramSpec spec) : spec_(std::move(spec)), byte_fallback_(spec_.byte_tokens[0] >= 0) {
  std::vector<ByteTrie::Entry> entries;
  for (size_t i = 0; i < spec_.pieces.size(); ++i) {
    if (spec_.usable[i]) entries.emplace_back(spec_.pieces[i], static_cast<int32_t>(i));
  }
  trie_ = ByteTrie(std::move(entries));
  spec_.pieces = {};
}

void Unigram::encode(std::string_view word, std::vector<Token>& out) const {
  if (spec_.in_double) {
    encode_in<double>(word, out);
  } else {
    encode_in<float>(word, out);
  }
}

template <class Score>
void Unigram::encode_in(std::string_view word, std::vector<Token>& out) const {
  std::vector<Node<Score>> best(word.size() + 1);
  const auto unk_score = static_cast<Score>(spec_.min_score) - static_cast<Score>(kUnkPenalty);
  const auto offer = [&best](size_t end, double score, size_t len, Token id) {
    Node<Score>& node = best[end];
    if (node.len == 0 || score > node.score) node = {static_cast<Score>(score), static_cast<uint32_t>(len), id};
  };
  for (size_t i = 0; i < word.size();) {
    const auto one = static_cast<size_t>(utf8_at(word, i).len);
    const Score here = best[i].score;
    bool has_single = false;
    int32_t node = trie_.start(word[i]);
    for (size_t end = i + 1; node != ByteTrie::kNone; ++end) {
      const Token id = trie_.value(node);
      if (id != ByteTrie::kNone) {
        const size_t len = end - i;
        const bool user_defined = !spec_.user_defined.empty() && spec_.user_defined[static_cast<size_t>(id)];
        const double score =
            user_defined ? static_cast<double>(len) * spec_.max_score - 0.1 : spec_.scores[static_cast<size_t>(id)];
        offer(end, score + double{here}, len, id);
        has_single |= len == one;
      }
      if (end == word.size()) break;
      node = trie_.step(node, word[end]);
    }
    if (!has_single) offer(i + one, double{unk_score + here}, one, -1);
    i += one;
  }
  std::vector<std::pair<size_t, Token>> path;  // where each piece begins, backwards
  for (size_t end = word.size(); end > 0; end -= best[end].len) path.emplace_back(end - best[end].len, best[end].id);
  std::reverse(path.begin(), path.end());
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i].second >= 0) {
      out.push_back(path[i].second);
      continue;
    }
    const size_t begin = path[i].first;
    while (i + 1 < path.size() && path[i + 1].second < 0) ++i;  // a run of unknown characters is one unknown piece
    const size_t end = i + 1 < path.size() ? path[i + 1].first : word.size();
    emit(word.substr(begin, end - begin), out);
  }
}

void Unigram::emit(std::string_view unknown, std::vector<Token>& out) const {
  if (byte_fallback_) {
    for (const char b : unknown) out.push_back(spec_.byte_tokens[static_cast<uint8_t>(b)]);
  } else if (spec_.unk >= 0) {
    out.push_back(spec_.unk);
  }
}

}  // namespace quire
