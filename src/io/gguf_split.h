// A GGUF model in several files: NAME-00001-of-00003.gguf and so on, each a whole GGUF file. The first holds the facts,
// every one says which it is ("split.no", from 0), of how many ("split.count") and how many tensors all of them hold.
// Source: llama.cpp's gguf-split.
#pragma once
#include <string>

#include "base/result.h"
#include "io/model_file.h"

namespace quire {

struct GgufSplit {
  int64_t no = 0, count = 1, n_tensors = 0;
};

// What a file says about itself; {0, 1, 0} for a model in one file. Errors: Code::corrupt names the key.
Result<GgufSplit> read_gguf_split(const Metadata& meta);

// The path of part `no` of the model that `path` is part split.no of. Code::corrupt when its name is not that of a
// part.
Result<std::string> gguf_part_path(const std::string& path, const GgufSplit& split, int64_t no);

// Takes over part `no`'s tensors. Code::corrupt when it is another part, another model's, or repeats a tensor.
Status add_gguf_part(ModelFile& whole, int64_t no, ModelFile part);

}  // namespace quire
