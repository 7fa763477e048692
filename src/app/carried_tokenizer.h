// A folder's tokenizer inside a GGUF file: its files as they are, so that the tokenizer is the same one.
// tokenizer.json stands under "tokenizer.huggingface.json", the key that GGUF's specification has for it; the files
// beside it under "tokenizer.quire.<file name>", what is no text as an array of bytes.
#pragma once
#include "io/gguf_writer.h"
#include "io/model_file.h"
#include "text/tokenizer_files.h"

namespace quire {

void put_tokenizer_files(const TokenizerFiles& files, GgufWriter& writer);
// Empty where the file carries none.
TokenizerFiles tokenizer_files_in(const Metadata& meta);

}  // namespace quire
