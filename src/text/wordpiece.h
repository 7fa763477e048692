// BERT's WordPiece: of each word the longest piece from the left, again and again; a word that cannot be covered, or is
// too long, is one unknown token.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "text/byte_trie.h"
#include "text/subword.h"

namespace quire {

struct WordPieceSpec {
  std::vector<std::pair<std::string, Token>> starts;     // pieces that begin a word
  std::vector<std::pair<std::string, Token>> continues;  // pieces that go on, without their "##"
  Token unk = -1;
  size_t max_chars = 100;  // of a word
};

class WordPiece final : public SubwordModel {
 public:
  explicit WordPiece(const WordPieceSpec& spec);
  void encode(std::string_view word, std::vector<Token>& out) const override;

 private:
  ByteTrie starts_, continues_;
  Token unk_;
  size_t max_chars_;
};

}  // namespace quire
