// A text file as a model's tokens, for commands that read a text through it.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "app/wire.h"

namespace quire {

// The file's text with the tokens that the model puts around one; `path` empty: none. Code::io names the file,
// Code::unsupported a model without a tokenizer.
Result<std::vector<Token>> text_tokens(const std::string& path, const LoadedModel& loaded);
// The token that stands before every text of the model's, BOS where its tokenizer puts it there; -1: none does.
Token begin_of_text(const LoadedModel& loaded);
// Code::invalid names the first id that is none of the model's.
Status check_ids(std::span<const Token> ids, const LoadedModel& loaded);

}  // namespace quire
