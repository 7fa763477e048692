// safetensors: eight bytes of length, a JSON header that names every tensor's type, shape and place, then the tensors'
// bytes with nothing between them. This reads the header out of untrusted bytes: the length is held against the file
// and kMaxSafetensorsHeader before anything is parsed, every range against the file, and the ranges against each other.
// Pure function of the bytes; any thread. Source: the safetensors specification (github.com/huggingface/safetensors).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, as the reference reader has it
inline constexpr size_t kMaxSafetensorsDims = 8;

struct SafeTensor {
  std::string name;
  std::string dtype;           // "BF16"; always one whose size is known
  std::vector<int64_t> shape;  // outermost first; empty for a scalar
  int64_t offset = 0;          // from the start of the file
  int64_t bytes = 0;
};

// Every tensor, sorted by name; names are unique, ranges lie inside `file`, do not overlap and leave no hole.
// Errors: Code::corrupt, or Code::unsupported for a type; both name the byte or the tensor.
Result<std::vector<SafeTensor>> parse_safetensors(std::span<const std::byte> file);

}  // namespace quire
