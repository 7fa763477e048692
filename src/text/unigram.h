// SentencePiece's unigram model: the segmentation whose scores add up highest, found by one pass over the text. Ties
// and sums follow the reference bit for bit: float for SentencePiece's own files, double where the tokenizer.json
// ruled.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "text/byte_trie.h"
#include "text/subword.h"

namespace quire {

struct UnigramSpec {
  std::vector<std::string> pieces;  // normalised text of each token
  std::vector<double> scores;
  std::vector<bool> usable;        // may be found in text (normal and user-defined pieces)
  std::vector<bool> user_defined;  // wins over everything inside it; empty: none
  double min_score = 0, max_score = 0;
  Token unk = -1;
  std::array<Token, 256> byte_tokens{};  // all -1: no byte fallback
  bool in_double = false;
};

class Unigram final : public SubwordModel {
 public:
  explicit Unigram(UnigramSpec spec);
  void encode(std::string_view word, std::vector<Token>& out) const override;

 private:
  template <class Score>
  void encode_in(std::string_view word, std::vector<Token>& out) const;
  void emit(std::string_view unknown, std::vector<Token>& out) const;

  UnigramSpec spec_;  // without the pieces
  ByteTrie trie_;
  bool byte_fallback_;
};

}  // namespace quire
