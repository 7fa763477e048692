// A Hugging Face folder as a ModelFile: config.json and generation_config.json as facts (hf_config.h), the tensors of
// model.safetensors or of the shards that model.safetensors.index.json names, under the names that they have there.
// model/hf_names.h turns both into the vocabulary that architectures speak. The folder's tokenizer is text's to read.
#pragma once
#include <string>
#include <vector>

#include "io/model_file.h"
#include "io/safetensors.h"

namespace quire {

// Whether the path is a folder with a config.json.
bool is_hf_folder(const std::string& path);

// All or nothing. Shards are plain file names inside the folder; links may lead out of it only to where the hub's own
// cache keeps its files. Pickled weights (.bin, .pt) are never opened. Errors name folder, file, tensor and byte.
Result<ModelFile> open_hf_folder(const std::string& path);
// The facts alone.
Result<ModelFile> open_hf_metadata(const std::string& path);
// The tensors as the headers have them, of any type, in no order; checked as above.
Result<std::vector<SafeTensor>> list_hf_tensors(const std::string& path);

}  // namespace quire
