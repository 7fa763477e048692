// A folder's tokenizer inside a GGUF file: its files as they are, so that the tokenizer is the same one.
// tokenizer.json stands under "tokenizer.huggingface.json", the key that GGUF's specification has for it; the files
// beside it under "tokenizer.quire.<file name>", what is no text as an array of bytes. Beside them GGUF's own tables,
// for other programs, where there are some that say the same (text/ggml_tables.h).
#pragma once
#include "io/gguf_writer.h"
#include "io/model_file.h"
#include "text/tokenizer_files.h"

namespace quire {

// `n_vocab` is the model's. A warning is logged where only Quire will know the tokenizer.
Status put_tokenizer(const TokenizerFiles& files, int n_vocab, GgufWriter& writer);
// Empty where the file carries none.
TokenizerFiles tokenizer_files_in(const Metadata& meta);

}  // namespace quire
