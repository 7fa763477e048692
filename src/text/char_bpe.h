// BPE that starts from characters: SentencePiece BPE (merges follow from the scores) and the tokenizer.json models that
// Hugging Face derives from it (merges are listed). Characters outside the vocabulary fall back to byte tokens, or to
// the unknown token.
//
// The one idea: no merge can cross two neighbouring characters unless some merge has exactly these two at its seam. So
// any text, however long, is first cut at the pairs that never meet (in practice: at words), and every cut is exact.
#pragma once
#include <array>
#include <atomic>
#include <memory>

#include "text/byte_trie.h"
#include "text/merge.h"
#include "text/subword.h"
#include "text/token_index.h"

namespace quire {

struct CharBpeSpec {
  std::vector<std::string> tokens;         // bytes of each token
  std::vector<bool> mergeable;             // may be the result of a merge, or a starting character
  std::vector<std::string> extra_symbols;  // ids tokens.size()…: characters that are no tokens but take part in merges
  std::vector<MergeRule> rules;
  std::array<Token, 256> byte_tokens{};  // all -1: no byte fallback
  Token unk = -1;
  bool fuse_unk = true;     // a run of unknown characters is one unknown token
  bool whole_word = false;  // a word that is a token is that token, whatever the merges say
  // How characters are named in the vocabulary: after the first of a word, and the last. Usually both are empty.
  std::string word_prefix, word_suffix;
  ByteTrie user_defined;  // texts that are one token and never merge (SentencePiece's user-defined symbols)
};

class CharBpe final : public SubwordModel {
 public:
  explicit CharBpe(CharBpeSpec spec);
  void encode(std::string_view word, std::vector<Token>& out) const override;

 private:
  Symbol symbol_of(char32_t cp) const { return pages_[page_of_[cp >> 8]][cp & 0xFF]; }
  void add_char(std::string_view text, Symbol symbol);
  void encode_named(std::string_view word, std::vector<Token>& out) const;
  void flush(std::string_view bytes, std::vector<Symbol>& symbols, std::vector<Token>& out, size_t& unk_end) const;
  void fall_back(std::string_view bytes, std::vector<Token>& out, size_t& unk_end) const;
  std::string_view symbol_text(Symbol s) const;
  bool encodes_to_itself(Token token) const;
  void build_joins();

  TokenIndex index_;
  std::vector<std::string> extra_symbols_;
  MergeTable merges_;
  MergeTable joins_;  // the pairs of characters that some merge has at its seam
  // Character → symbol: pages of 256 code points, page 0 of pages_ is "none".
  using Page = std::array<Symbol, 256>;
  std::array<uint16_t, 0x1100> page_of_{};
  std::vector<Page> pages_;
  std::array<Token, 256> byte_tokens_;
  ByteTrie user_defined_;
  std::string word_prefix_, word_suffix_;
  Token unk_;
  bool byte_fallback_, fuse_unk_, whole_word_;
  // Per token: 0 not known yet, 1 merging its characters gives the token itself, 2 it gives something else.
  // Filled lazily by any thread; every thread computes the same value.
  std::unique_ptr<std::atomic<uint8_t>[]> self_;
};

}  // namespace quire
