// A prompt's tokens with their logprobs: computed once by the engine, kept once, and shared by all choices of the
// prompt that tell them. Io thread only.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "serve/reply_writer.h"
#include "text/tokenizer.h"

namespace quire {

class PromptTokens {
 public:
  // `first`: the prompt's first token, which has no logprob; `scored`: those behind it. `echo`: the text that the
  // prompt is told as, null where it is not told.
  PromptTokens(const Tokenizer& tokenizer,
               Token first,
               std::vector<TokenEvent> scored,
               std::shared_ptr<const std::string> echo)
      : tokenizer_(tokenizer),
        first_(first),
        scored_(std::move(scored)),
        echo_(std::move(echo)),
        n_(scored_.size() + 1) {}

  size_t size() const { return n_; }
  // The first one's logprob is NaN. Made when first asked for: in the piece of an answer that needs it. Where the
  // prompt is told each has its place in that text, what a special token or a leading space has in addition coming
  // first. Linear in the prompt.
  const std::vector<TokenText>& tokens();
  // How many bytes of text were looked at to find the places.
  int64_t n_bytes_looked_at() const { return n_looked_at_; }

 private:
  void place();
  int64_t points_of(std::string_view text);

  const Tokenizer& tokenizer_;
  const Token first_;
  std::vector<TokenEvent> scored_;  // until tokens_ is made of it
  const std::shared_ptr<const std::string> echo_;
  const size_t n_;
  std::vector<TokenText> tokens_;
  int64_t n_looked_at_ = 0;
};

}  // namespace quire
