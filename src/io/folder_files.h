// Files of a folder that somebody downloaded: small JSON, and tensors in safetensors. Names of untrusted origin stay
// inside of the folder. Any thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mmap.h"
#include "base/result.h"
#include "io/safetensors.h"
#include "quant/weight_format.h"

namespace quire {

// A small JSON file of the folder; Infinity, as Python writes it, is 1e308. Errors begin with its name:
// Code::not_found, Code::corrupt (more than max_bytes, or no JSON), Code::io.
Result<Json> read_folder_json(const std::string& folder, const std::string& name, size_t max_bytes);
// For errors: a value cut to what a line has room for, and "nothing" where there is none.
std::string shown_json(const Json* value);

// One file of tensors, mapped and checked, sorted by name.
struct TensorFile {
  std::string name;
  std::shared_ptr<const MappedFile> map;
  std::vector<SafeTensor> tensors;
};
// Errors begin with the file's name; a link may lead to the hub cache's blobs beside the folder and nowhere else.
Result<TensorFile> open_tensor_file(const std::string& folder, const std::string& name);

// One of them; points into the map. Code::unsupported names tensor and byte where it is neither F32 nor F16 nor BF16.
Result<HostWeight> make_weight(const SafeTensor& tensor, const MappedFile& map);

}  // namespace quire
