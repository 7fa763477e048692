// The hash of what text becomes tokens by, and tokens text: part of a model's fingerprint. A tokenizer is a spec out of
// a GGUF file or a folder's files; of either everything counts.
#pragma once
#include <span>

#include "base/hash128.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_spec.h"

namespace quire {

// `ends`: ids that end a sequence besides the tokenizer's own.
Hash128 tokenizer_hash(const TokenizerSpec& spec, std::span<const Token> ends);
Hash128 tokenizer_hash(const TokenizerFiles& files, std::span<const Token> ends);

}  // namespace quire
