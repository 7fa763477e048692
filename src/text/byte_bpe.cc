// See byte_bpe.h.
#include "text/byte_bpe.h"

#include "text/kept_vector.h"

namespace quire {

namespace {
constexpr uint8_t kUnchecked = 0, kSelf = 1, kNotSelf = 2;
}  // namespace

ByteBpe::ByteBpe(const ByteBpeSpec& spec) : unk_(spec.unk), whole_word_(spec.whole_word) {
  index_.build(spec.tokens, spec.mergeable);
  self_ = std::make_unique<std::atomic<uint8_t>[]>(spec.tokens.size());
  merges_.reserve(spec.rules.size());
  for (const MergeRule& r : spec.rules) merges_.add(r.left, r.right, r.merge);
  for (size_t b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    bytes_[b] = index_.find(std::string_view(&byte, 1));
  }
}

void ByteBpe::encode(std::string_view word, std::vector<Token>& out) const {
  if (word.size() == 1 && bytes_[static_cast<uint8_t>(word[0])] >= 0) {
    out.push_back(bytes_[static_cast<uint8_t>(word[0])]);
    return;
  }
  const Token whole = index_.find(word);
  if (whole >= 0 && (whole_word_ || encodes_to_itself(whole))) {
    out.push_back(whole);
  } else {
    encode_by_merges(word, out);
  }
}

void ByteBpe::encode_by_merges(std::string_view word, std::vector<Token>& out) const {
  thread_local std::vector<Symbol> kept;
  const KeptVector held(kept);
  std::vector<Symbol>& symbols = *held;
  const auto flush = [&] {
    merge_symbols(merges_, symbols);
    out.insert(out.end(), symbols.begin(), symbols.end());
    symbols.clear();
  };
  for (const char b : word) {
    const Symbol s = bytes_[static_cast<uint8_t>(b)];
    if (s >= 0) {
      symbols.push_back(s);
      continue;
    }
    flush();
    if (unk_ >= 0) out.push_back(unk_);
  }
  flush();
}

bool ByteBpe::encodes_to_itself(Token token) const {
  std::atomic<uint8_t>& state = self_[static_cast<size_t>(token)];
  uint8_t known = state.load(std::memory_order_relaxed);
  if (known == kUnchecked) {
    std::vector<Token> merged;
    encode_by_merges(index_.text(token), merged);
    known = merged.size() == 1 && merged[0] == token ? kSelf : kNotSelf;
    state.store(known, std::memory_order_relaxed);
  }
  return known == kSelf;
}

std::vector<MergeRule> rules_from_ranks(const TokenIndex& index, const std::vector<uint32_t>& ranks) {
  std::vector<MergeRule> rules;
  for (size_t id = 0; id < ranks.size(); ++id) {
    const auto token = static_cast<Token>(id);
    const std::string_view text = index.text(token);
    if (ranks[id] == Merge::kNever || index.find(text) != token) continue;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Token left = index.find(text.substr(0, cut)), right = index.find(text.substr(cut));
      if (left >= 0 && right >= 0) rules.push_back({left, right, {ranks[id], token}});
    }
  }
  return rules;
}

}  // namespace quire
