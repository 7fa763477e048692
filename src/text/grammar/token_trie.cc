// See token_trie.h.
#include "text/grammar/token_trie.h"

#include <algorithm>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace quire {

namespace {

constexpr int kSliceChars[] = {4, 8, 16, 32};  // the last is Automaton::kMaxFreeChars

// Characters of a text that a JSON string holds unescaped, 0 when it does not.
int free_chars(std::string_view text) {
  int n = 0;
  for (size_t i = 0; i < text.size(); ++n) {
    const CodePoint c = utf8_at(text, i);
    if (!c.valid || c.value < 0x20 || c.value == '"' || c.value == '\\') return 0;
    i += static_cast<size_t>(c.len);
  }
  return n;
}

}  // namespace

TokenTrie::TokenTrie(std::vector<std::string> bytes, std::vector<Token> ends, size_t n_logits)
    : bytes_(std::move(bytes)), ends_(std::move(ends)), n_logits_(std::max(n_logits, bytes_.size())) {
  std::sort(ends_.begin(), ends_.end());
  ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
  std::vector<Token> sorted;
  for (size_t id = 0; id < bytes_.size(); ++id) {
    const bool usable = !bytes_[id].empty() && bytes_[id].size() <= kMaxTokenBytes && !is_end(static_cast<Token>(id));
    if (!usable) continue;
    sorted.push_back(static_cast<Token>(id));
    longest_ = std::max(longest_, bytes_[id].size());
  }
  std::sort(sorted.begin(), sorted.end(), [&](Token a, Token b) {
    const int order = bytes_[static_cast<size_t>(a)].compare(bytes_[static_cast<size_t>(b)]);
    return order != 0 ? order < 0 : a < b;
  });
  same_as_.assign(bytes_.size(), -1);
  std::vector<Token> distinct;
  for (const Token id : sorted) {
    const size_t i = static_cast<size_t>(id);
    if (!distinct.empty() && bytes_[static_cast<size_t>(distinct.back())] == bytes_[i]) {
      Token last = distinct.back();
      while (same_as_[static_cast<size_t>(last)] >= 0) last = same_as_[static_cast<size_t>(last)];
      same_as_[static_cast<size_t>(last)] = id;
    } else {
      distinct.push_back(id);
    }
  }
  nodes_ = build(distinct);
  for (const int n : kSliceChars) {
    Slice slice;
    slice.max_chars = n;
    slice.mask.assign(n_words(), 0);
    std::vector<Token> rest;
    for (const Token id : distinct) {
      const int chars = free_chars(bytes_[static_cast<size_t>(id)]);
      if (chars == 0 || chars > n) {
        rest.push_back(id);
        continue;
      }
      for (Token t = id; t >= 0; t = same_as(t)) {
        slice.mask[static_cast<size_t>(t) / 32] |= 1u << (static_cast<uint32_t>(t) % 32);
      }
    }
    slice.rest = build(rest);
    slices_.push_back(std::move(slice));
  }
}

bool TokenTrie::is_end(Token id) const { return std::binary_search(ends_.begin(), ends_.end(), id); }

// The trie of sorted distinct texts, nodes in order of a walk.
std::vector<TokenTrie::Node> TokenTrie::build(const std::vector<Token>& sorted) const {
  std::vector<Node> nodes;
  std::vector<uint32_t> path;  // nodes of the text before
  std::string_view before;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes[path.back()].skip = static_cast<uint32_t>(nodes.size());
  };
  for (const Token id : sorted) {
    const std::string_view text = bytes_[static_cast<size_t>(id)];
    const size_t n = std::min(text.size(), before.size());
    const size_t common = static_cast<size_t>(
        std::mismatch(text.begin(), text.begin() + static_cast<ptrdiff_t>(n), before.begin()).first - text.begin());
    close(common);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes.size()));
      nodes.push_back({0, -1, static_cast<uint16_t>(i + 1), static_cast<uint8_t>(text[i])});
    }
    nodes[path.back()].token = id;
    before = text;
  }
  close(0);
  return nodes;
}

std::optional<size_t> TokenTrie::find(std::string_view bytes) const {
  std::optional<size_t> found;
  size_t i = 0, end = nodes_.size();
  for (const char c : bytes) {
    while (i < end && nodes_[i].byte != static_cast<uint8_t>(c)) i = nodes_[i].skip;
    if (i >= end) return std::nullopt;
    found = i;
    end = nodes_[i].skip;
    ++i;
  }
  return found;
}

size_t TokenTrie::memory_bytes() const {
  size_t n = nodes_.size() * sizeof(Node) + same_as_.size() * sizeof(Token);
  for (const std::string& b : bytes_) n += sizeof b + (b.size() < 16 ? 0 : b.capacity());
  for (const Slice& s : slices_) n += s.mask.size() * 4 + s.rest.size() * sizeof(Node);
  return n;
}

std::shared_ptr<const TokenTrie> TokenTrie::of(const Tokenizer& tokenizer, size_t n_logits) {
  const auto n = static_cast<size_t>(tokenizer.n_vocab());
  std::vector<std::string> bytes(n);
  std::vector<Token> ends;
  const std::vector<TokenType>& types = tokenizer.spec().types;
  for (size_t i = 0; i < n; ++i) {
    const auto id = static_cast<Token>(i);
    if (tokenizer.is_end(id)) ends.push_back(id);
    const TokenType type = i < types.size() ? types[i] : TokenType::normal;
    if (type == TokenType::control || type == TokenType::unknown || type == TokenType::unused) continue;
    tokenizer.append_bytes(id, false, bytes[i]);
  }
  return std::make_shared<TokenTrie>(std::move(bytes), std::move(ends), n_logits);
}

}  // namespace quire
