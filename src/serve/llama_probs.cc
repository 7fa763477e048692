#include "serve/llama_probs.h"

#include <cmath>

#include "serve/logprobs.h"

namespace quire {
namespace {

// Without the closing brace.
void append_one(std::string& out, const TopLogprob& one, bool drawn, const Tokenizer& tokenizer) {
  out += "{\"id\":" + std::to_string(one.id) + ",\"token\":";
  append_json_string(out, token_name(tokenizer, one.id));
  out += ",\"bytes\":";
  append_token_bytes(out, one.id, tokenizer);
  out += drawn ? ",\"prob\":" : ",\"logprob\":";
  if (drawn)
    append_json_number(out, std::exp(static_cast<double>(one.logprob)));
  else
    append_logprob(out, one.logprob);
}

}  // namespace

void append_llama_probs(std::string& out, const TokenText& token, bool drawn, const Tokenizer& tokenizer) {
  append_one(out, {token.id, token.logprob}, drawn, tokenizer);
  out += drawn ? ",\"top_probs\":[" : ",\"top_logprobs\":[";
  for (const TopLogprob& top : token.top) {
    if (&top != token.top.data()) out += ',';
    append_one(out, top, drawn, tokenizer);
    out += '}';
  }
  out += "]}";
}

}  // namespace quire
