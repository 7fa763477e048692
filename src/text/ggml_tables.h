// A folder's tokenizer as the tables that GGUF files hold (tokenizer.ggml.…), for programs that know those alone. BPE
// only, of bytes or of characters; SentencePiece's own files have the tables already.
#pragma once
#include "base/result.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace quire {

// The tables of `known`, which was read from `files`, for a model of `n_vocab` tokens: ids without a token get one that
// nothing encodes to. A tokenizer.json says its pre-tokenizer as patterns, GGUF as a name: the first name is taken that
// cuts a text of many scripts, spaces and digits as `known` does. Code::unsupported where none does, where the model is
// of another kind, or has fewer tokens than the tokenizer.
Result<TokenizerSpec> ggml_tables(const TokenizerFiles& files, const Tokenizer& known, int n_vocab);

}  // namespace quire
