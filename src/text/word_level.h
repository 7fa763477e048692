// A word is a token or it is unknown.
#pragma once
#include "text/subword.h"
#include "text/token_index.h"

namespace quire {

class WordLevel final : public SubwordModel {
 public:
  WordLevel(TokenIndex names, Token unk) : names_(std::move(names)), unk_(unk) {}
  void encode(std::string_view word, std::vector<Token>& out) const override {
    const Token id = names_.find(word);
    if (id >= 0 || unk_ >= 0) out.push_back(id >= 0 ? id : unk_);
  }

 private:
  TokenIndex names_;
  Token unk_;
};

}  // namespace quire
