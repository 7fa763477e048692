// A GGUF file's tokenizer keys as a TokenizerSpec.
#pragma once
#include "base/result.h"
#include "io/model_file.h"

namespace quire {

// REQUIRES the key "tokenizer.ggml.model". Moves the large tables (tokens, scores, token_type, merges,
// precompiled_charsmap) out of `meta`. What a file leaves open follows its model: "llama" adds BOS 1, knows EOS 2 and
// UNK 0 and puts a space in front; "bert" has CLS 101, SEP 102, UNK 100, PAD 0, MASK 103; "t5" adds EOS 1 and knows
// UNK 2 and PAD 0; "gpt2" names no ids and leaves BOS to its pre-tokenizer's family (bos_by_name). A default outside
// the vocabulary is none. An end-of-turn token that is not named is looked for by its well-known spellings. Whether the
// model is one that text can build is for text to say, and so is the meaning of merges and charsmap. Errors:
// Code::not_found or Code::corrupt, naming the key.
Result<TokenizerSpec> read_tokenizer(Metadata& meta);

}  // namespace quire
