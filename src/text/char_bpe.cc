// See char_bpe.h.
#include "text/char_bpe.h"

#include "text/kept_vector.h"
#include "text/utf8.h"

namespace quire {

namespace {
constexpr uint8_t kUnchecked = 0, kSelf = 1, kNotSelf = 2;
constexpr size_t kNowhere = ~size_t{0};
}  // namespace

CharBpe::CharBpe(CharBpeSpec spec)
    : extra_symbols_(std::move(spec.extra_symbols)),
      byte_tokens_(spec.byte_tokens),
      user_defined_(std::move(spec.user_defined)),
      word_prefix_(std::move(spec.word_prefix)),
      word_suffix_(std::move(spec.word_suffix)),
      unk_(spec.unk),
      byte_fallback_(spec.byte_tokens[0] >= 0),
      fuse_unk_(spec.fuse_unk),
      whole_word_(spec.whole_word) {
  index_.build(spec.tokens, spec.mergeable);
  self_ = std::make_unique<std::atomic<uint8_t>[]>(spec.tokens.size());
  merges_.reserve(spec.rules.size());
  for (const MergeRule& r : spec.rules) merges_.add(r.left, r.right, r.merge);
  pages_.emplace_back().fill(-1);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.mergeable[id] && !spec.tokens[id].empty()) add_char(spec.tokens[id], static_cast<Symbol>(id));
  }
  for (size_t i = 0; i < extra_symbols_.size(); ++i) {
    add_char(extra_symbols_[i], static_cast<Symbol>(spec.tokens.size() + i));
  }
  build_joins();
}

std::string_view CharBpe::symbol_text(Symbol s) const {
  const auto i = static_cast<size_t>(s);
  return i < index_.size() ? index_.text(s) : extra_symbols_[i - index_.size()];
}

void CharBpe::build_joins() {
  size_t n_pairs = 0;
  merges_.for_each_pair([&](Symbol, Symbol) { ++n_pairs; });
  joins_.reserve(n_pairs);
  merges_.for_each_pair([&](Symbol left, Symbol right) {
    const std::string_view l = symbol_text(left), r = symbol_text(right);
    const Symbol last = symbol_of(utf8_at(l, last_code_point(l)).value), first = symbol_of(utf8_at(r, 0).value);
    if (last >= 0 && first >= 0) joins_.add(last, first, {0, 0});
  });
}

// Of two symbols for one character the first stays.
void CharBpe::add_char(std::string_view text, Symbol symbol) {
  const CodePoint c = utf8_at(text, 0);
  if (!c.valid || static_cast<size_t>(c.len) != text.size()) return;
  uint16_t& page = page_of_[c.value >> 8];
  if (page == 0) {
    page = static_cast<uint16_t>(pages_.size());
    pages_.emplace_back().fill(-1);
  }
  Symbol& slot = pages_[page][c.value & 0xFF];
  if (slot < 0) slot = symbol;
}

void CharBpe::encode(std::string_view word, std::vector<Token>& out) const {
  if (!word_prefix_.empty() || !word_suffix_.empty()) return encode_named(word, out);
  thread_local std::vector<Symbol> kept;
  const KeptVector held(kept);
  std::vector<Symbol>& symbols = *held;
  size_t begin = 0;  // of the segment that `symbols` holds
  size_t unk_end = kNowhere;
  for (size_t i = 0; i < word.size();) {
    if (user_defined_.may_start(word[i])) {
      const ByteTrie::Match m = user_defined_.longest(word.substr(i));
      if (m.len > 0) {
        flush(word.substr(begin, i - begin), symbols, out, unk_end);
        out.push_back(m.value);
        i += m.len;
        continue;
      }
    }
    const CodePoint c = utf8_at(word, i);
    const auto len = static_cast<size_t>(c.len);
    const Symbol symbol = c.valid ? symbol_of(c.value) : -1;
    if (!symbols.empty() && (symbol < 0 || joins_.find(symbols.back(), symbol).rank == Merge::kNever)) {
      flush(word.substr(begin, i - begin), symbols, out, unk_end);
    }
    if (symbols.empty()) begin = i;
    if (symbol >= 0) {
      symbols.push_back(symbol);
    } else {
      fall_back(word.substr(i, len), out, unk_end);
    }
    i += len;
  }
  if (!symbols.empty()) flush(word.substr(begin), symbols, out, unk_end);
}

void CharBpe::flush(std::string_view bytes,
                    std::vector<Symbol>& symbols,
                    std::vector<Token>& out,
                    size_t& unk_end) const {
  if (symbols.size() > 1) {
    const Token whole = bytes.empty() ? -1 : index_.find(bytes);
    if (whole >= 0 && (whole_word_ || encodes_to_itself(whole))) {
      out.push_back(whole);
      symbols.clear();
      return;
    }
    merge_symbols(merges_, symbols);
  }
  const auto n_tokens = static_cast<Symbol>(index_.size());
  for (const Symbol s : symbols) {
    if (s < n_tokens) {
      out.push_back(s);
    } else {
      fall_back(symbol_text(s), out, unk_end);
    }
  }
  symbols.clear();
}

// Words of vocabularies that name a character by its place ("##x", "x</w>"): no cutting, the marks forbid it.
void CharBpe::encode_named(std::string_view word, std::vector<Token>& out) const {
  std::vector<Symbol> symbols;
  std::string name;
  size_t unk_end = kNowhere;
  for (size_t i = 0; i < word.size();) {
    const auto len = static_cast<size_t>(utf8_at(word, i).len);
    name.assign(i > 0 ? word_prefix_ : "").append(word, i, len);
    if (i + len == word.size()) name += word_suffix_;
    const Symbol symbol = index_.find(name);
    if (symbol >= 0) {
      symbols.push_back(symbol);
    } else {
      flush({}, symbols, out, unk_end);
      fall_back(word.substr(i, len), out, unk_end);
    }
    i += len;
  }
  flush({}, symbols, out, unk_end);
}

// unk_end: where `out` ended after the last unknown token; equal to its size now, this one joins that run.
void CharBpe::fall_back(std::string_view bytes, std::vector<Token>& out, size_t& unk_end) const {
  if (byte_fallback_) {
    for (const char b : bytes) out.push_back(byte_tokens_[static_cast<uint8_t>(b)]);
  } else if (unk_ >= 0 && !(fuse_unk_ && unk_end == out.size())) {
    out.push_back(unk_);
    unk_end = out.size();
  }
}

bool CharBpe::encodes_to_itself(Token token) const {
  std::atomic<uint8_t>& state = self_[static_cast<size_t>(token)];
  uint8_t known = state.load(std::memory_order_relaxed);
  if (known == kUnchecked) {
    std::vector<Symbol> symbols;
    for (const char32_t cp : to_code_points(index_.text(token))) symbols.push_back(symbol_of(cp));
    merge_symbols(merges_, symbols);
    known = symbols.size() == 1 && symbols[0] == token ? kSelf : kNotSelf;
    state.store(known, std::memory_order_relaxed);
  }
  return known == kSelf;
}

}  // namespace quire
