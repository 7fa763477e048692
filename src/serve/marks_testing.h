// For this room's tests only: marks of a chat template that are tokens of their own.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/testing.h"

namespace quire {

// Adds marks to a vocabulary as control tokens, and spells texts with them.
class MarkTokens {
 public:
  void add(const std::vector<std::string>& marks, TokenizerSpec& spec) {
    for (const std::string& mark : marks) {
      all_.emplace_back(mark, static_cast<Token>(spec.tokens.size()));
      spec.tokens.push_back(mark);
      spec.types.push_back(TokenType::control);
      spec.scores.push_back(0.0F);
    }
  }
  // Marks as tokens, all else as bytes.
  std::vector<Token> spell(std::string_view text) const {
    std::vector<Token> out;
    while (!text.empty()) {
      const auto mark = std::ranges::find_if(all_, [&](const auto& one) { return text.starts_with(one.first); });
      out.push_back(mark != all_.end() ? mark->second : byte_tokens(text.substr(0, 1))[0]);
      text.remove_prefix(mark != all_.end() ? mark->first.size() : 1);
    }
    return out;
  }

 private:
  std::vector<std::pair<std::string, Token>> all_;
};

}  // namespace quire
