// The model step inside a tokenizer: one word (what the pre-tokenizer cut, already normalised) to tokens.
#pragma once
#include <string_view>
#include <vector>

#include "base/types.h"

namespace quire {

class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  // Appends the tokens of `word`. Total and thread-safe.
  virtual void encode(std::string_view word, std::vector<Token>& out) const = 0;
};

}  // namespace quire
