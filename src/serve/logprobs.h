// Logprobs in the two forms that OpenAI gives them. Pure functions.
#pragma once
#include <span>
#include <string>

#include "serve/api.h"

namespace quire {

// The text of one token, control tokens by name: valid UTF-8, or "bytes:\xe2\x80" where its bytes are not. "token:512"
// where the tokenizer does not know it.
std::string token_name(const Tokenizer& tokenizer, Token id);

// A number that JSON has; null for NaN.
void append_logprob(std::string& out, float logprob);
// [{"token","logprob","bytes","top_logprobs":[…]}]
void append_logprob_list(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer);
// Chat: {"content":[…],"refusal":null}
void append_chat_logprobs(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer);

// Completions: {"tokens":[],"token_logprobs":[],"top_logprobs":[{}],"text_offset":[]}. Each map holds the chosen token
// and the largest ones, under distinct names. A logprob that is NaN is null, its map too.
void append_completion_logprobs(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer);

// [null,{"15":{"logprob":-0.5,"decoded_token":" a"}},…]: per token of a prompt itself and the largest; null for the
// first.
void append_prompt_logprobs(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer);

}  // namespace quire
