// Probabilities of tokens as llama.cpp's server tells them: "completion_probabilities".
#pragma once
#include <memory>
#include <string>

#include "serve/reply_writer.h"
#include "text/tokenizer.h"

namespace quire {

// {"id","token","bytes","logprob","top_logprobs":[…]}; of what was drawn from: {…,"prob","top_probs":[…]}.
void append_llama_probs(std::string& out, const TokenText& token, bool drawn, const Tokenizer& tokenizer);

}  // namespace quire
