// tiktoken's rank files: lines of a base64 token and its rank. The split pattern is not in the file; it is known by the
// number of ranks, which names the family.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer.h"

namespace quire {

struct TiktokenContext {
  std::vector<AddedToken> added;  // special tokens from beside the file; empty: the family's own where known
  std::string chat_template;
};

// Code::corrupt names the line, Code::unsupported a vocabulary of no known family.
Result<std::unique_ptr<Tokenizer>> make_tiktoken(std::string_view file, const TiktokenContext& context);

// Whether a file looks like ranks: its first line is base64, a space and a number.
bool looks_like_tiktoken(std::string_view file);

}  // namespace quire
