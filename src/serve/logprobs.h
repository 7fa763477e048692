// Logprobs in the forms that clients know.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "serve/api.h"

namespace quire {

// The text of one token, control tokens by name: valid UTF-8, or "bytes:\xe2\x80" where its bytes are not. "token:512"
// where the tokenizer does not know it.
std::string token_name(const Tokenizer& tokenizer, Token id);

// 12,7: ids as JSON lists have them, without brackets.
void append_ids(std::string& out, std::span<const Token> ids);
// [226,128]: the token's bytes; [] where the tokenizer does not know it.
void append_token_bytes(std::string& out, Token id, const Tokenizer& tokenizer);
// A number that JSON has; null for NaN.
void append_logprob(std::string& out, float logprob);
// [{"token","logprob","bytes","top_logprobs":[…]}]
void append_logprob_list(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer);
// Chat: {"content":[…],"refusal":null}
void append_chat_logprobs(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer);

// Completions: {"tokens":[],"token_logprobs":[],"top_logprobs":[{}],"text_offset":[]}. Each map holds the chosen token
// and the largest ones, under distinct names. A logprob that is NaN is null, its map too.
void append_completion_logprobs(std::string& out, std::span<const TokenText> tokens, const Tokenizer& tokenizer);

// "accepted":[{"text_offset":12,"length":5},…],"text_length":25: of the tokens those that were guessed, where their
// text lies in the choice's and how much there is of that by now, in code points.
void append_accepted(std::string& out, const Delta& delta);

// --- of whole answers, made as they are written ---

// The tokens of a choice: those of its prompt where they are told with it, then its own.
struct ToldTokens {
  std::shared_ptr<PromptTokens> prompt;  // null: they are not
  int n_prompt_top = 0;                  // of the largest of the prompt's
  std::shared_ptr<const ChoiceResult> choice;
};
// What append_logprob_list and append_chat_logprobs say of a choice's own, the former without brackets.
void add_logprob_list(Pieces& out, std::shared_ptr<const ChoiceResult> choice, const Tokenizer& tokenizer);
void add_chat_logprobs(Pieces& out, std::shared_ptr<const ChoiceResult> choice, const Tokenizer& tokenizer);
void add_completion_logprobs(Pieces& out, const ToldTokens& told, const Tokenizer& tokenizer);
// What append_accepted says.
void add_accepted(Pieces& out, std::shared_ptr<const ChoiceResult> choice);
// [null,{"15":{"logprob":-0.5,"decoded_token":" a"}},…]: per token of a prompt itself and the n_top largest; null for
// the first.
void add_prompt_logprobs(Pieces& out, std::shared_ptr<PromptTokens> prompt, int n_top, const Tokenizer& tokenizer);

}  // namespace quire
