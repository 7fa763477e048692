// A model on disk as named tensors and named facts, whatever its container. The vocabulary that architectures speak is
// GGUF's: tensor names ("blk.0.attn_q.weight") and keys ("llama.embedding_length"). A Hugging Face folder is opened
// under its own names (hf_folder.h); each architecture's table translates them (model/hf_names.h).
// Immutable after load; any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "quant/weight_format.h"
#include "text/tokenizer_spec.h"

namespace quire {

class MappedFile;

// One fact of a file. Arrays of numbers and of strings are kept; nested arrays are not.
using MetaValue = std::variant<bool,
                               int64_t,
                               uint64_t,
                               double,
                               std::string,
                               std::vector<int64_t>,
                               std::vector<double>,
                               std::vector<std::string>>;

class Metadata {
 public:
  std::map<std::string, MetaValue, std::less<>> values;
  // Keys that the file itself spells otherwise, and how ("llama.embedding_length": "hidden_size").
  std::map<std::string, std::string, std::less<>> spelled;

  std::string shown(std::string_view key) const;  // as errors name it: in the file's own spelling, in quotes
  const MetaValue* find(std::string_view key) const;
  // The value as the wanted type. Errors: Code::not_found names the key; Code::corrupt names key, wanted type or range
  // [lo, hi] and the value found.
  Result<int64_t> get_int(std::string_view key, int64_t lo, int64_t hi) const;
  Result<double> get_double(std::string_view key, double lo, double hi) const;  // refuses NaN
  Result<std::string> get_string(std::string_view key) const;
  // As above, `fallback` when the key is absent; still an error when it is there and wrong.
  Result<int64_t> get_int_or(std::string_view key, int64_t lo, int64_t hi, int64_t fallback) const;
  Result<double> get_double_or(std::string_view key, double lo, double hi, double fallback) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  Result<std::string> get_string_or(std::string_view key, std::string fallback) const;
};

struct ModelFile {
  std::string path;       // as the user gave it
  std::string container;  // "GGUF v3", "safetensors"
  int64_t file_bytes = 0;
  Metadata meta;
  std::vector<HostWeight> tensors;  // sorted by name
  TokenizerSpec tokenizer;
  bool has_tokenizer = false;
  bool is_hugging_face = false;                         // names and keys are those of the folder's own files
  std::vector<std::shared_ptr<const MappedFile>> maps;  // what `tensors` point into
  std::vector<std::shared_ptr<const std::vector<std::byte>>> owned;  // or into these: tensors made from stored ones

  std::function<std::string(std::string_view)> spelling;  // of a tensor in the file itself; empty: the same

  const HostWeight* find(std::string_view name) const;  // nullptr when absent
  std::string shown(std::string_view tensor) const;     // as errors name it: in the file's own spelling, in quotes
  void sort_tensors();                                  // by name, as find() needs them
  // Fails with Code::corrupt when a file was truncated or written since it was opened. To be asked after the last read
  // of tensor bytes: what was missing then has read as zeros (base/mmap.h).
  Status check_unchanged() const;
  // Says that a tensor's bytes are not needed for now (MappedFile::release).
  void release(const HostWeight& weight) const;
  // The tensor with exactly this shape. Errors name file, tensor, wanted and found shape.
  Result<const HostWeight*> get(std::string_view name, const std::vector<int64_t>& shape) const;
};

// Opens by what the path is: a GGUF file or a Hugging Face folder (hf_folder.h; without its tokenizer). All or nothing;
// errors name file, key or tensor, and byte offset.
Result<ModelFile> open_model(const std::string& path);
// Facts and tokenizer only: `tensors` stays empty, and neither their types nor their bytes are looked at.
Result<ModelFile> open_model_metadata(const std::string& path);

}  // namespace quire
