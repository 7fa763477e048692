#include "serve/prompt_tokens.h"

#include <algorithm>
#include <limits>

#include "serve/code_points.h"
#include "text/detok.h"

namespace quire {

const std::vector<TokenText>& PromptTokens::tokens() {
  if (!tokens_.empty()) return tokens_;
  tokens_.reserve(n_);
  tokens_.push_back({first_, std::numeric_limits<float>::quiet_NaN(), {}, 0});
  for (TokenEvent& event : scored_) tokens_.push_back({event.id, event.logprob, std::move(event.top), 0});
  scored_ = {};
  if (echo_ != nullptr) place();
  return tokens_;
}

int64_t PromptTokens::points_of(std::string_view text) {
  n_looked_at_ += std::ssize(text);
  return count_points(text);
}

void PromptTokens::place() {
  Detok detok(tokenizer_, true, false);
  std::string text;
  int64_t n_points = 0;
  for (TokenText& token : tokens_) {
    token.text_at = n_points;
    text.clear();
    if (token.id < tokenizer_.n_vocab()) detok.push(token.id, text);
    n_points += points_of(text);
  }
  text.clear();
  detok.flush(text);
  const int64_t more = n_points + points_of(text) - points_of(*echo_);
  for (TokenText& token : tokens_) token.text_at = std::max<int64_t>(0, token.text_at - more);
}

}  // namespace quire
