// GGUF, versions 2 and 3: a header of facts and tensor descriptions, then the tensors' bytes. This reads the header out
// of untrusted bytes; nothing is allocated before the count that asks for it has been held against the bytes that are
// left. Turning it into a ModelFile (weight formats, tokenizer) is model_file.cc's work.
// Pure functions of the bytes; any thread. Source: the GGUF specification (ggml/docs/gguf.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/model_file.h"

namespace quire {

inline constexpr uint64_t kMaxMetaBytes = uint64_t{128} << 20;  // of all facts together, and of each
inline constexpr uint64_t kMaxKeyBytes = 65535;                 // as the specification says
inline constexpr uint64_t kMaxTensorNameBytes = 255;
inline constexpr int kMaxTensorDims = 4;
inline constexpr int kMaxArrayDepth = 4;
inline constexpr uint64_t kMinAlignment = 8, kMaxAlignment = uint64_t{1} << 24, kDefaultAlignment = 32;

struct GgufTensor {
  std::string name;
  uint32_t type = 0;           // a number that find_ggml_type knows
  std::vector<int64_t> shape;  // outermost first: GGUF's order reversed
  int64_t offset = 0;          // from the start of the file
  int64_t bytes = 0;
};

// A fact as the file's bytes, for copying it exactly: the value's type number, then the value. A view into the file.
struct GgufFact {
  std::string key;
  std::span<const std::byte> value;
};

struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = kDefaultAlignment;
  uint64_t n_tensors = 0;
  int64_t data_offset = 0;  // where the tensors' bytes begin; 0 when there are none or when they were not asked for
  Metadata meta;
  std::vector<GgufFact> facts;      // every key, in the file's order
  std::vector<GgufTensor> tensors;  // sorted by name
};

enum class GgufParts : uint8_t { facts, all };  // facts: the tensor table and the tensors may be missing or broken

bool is_gguf(std::span<const std::byte> file);
// Every tensor of the result lies inside `file`, on its own and aligned; names are unique. Whole numbers become int64,
// those of an unsigned type beyond it uint64; arrays of arrays are checked and left out.
// Errors: Code::corrupt, or Code::unsupported for a version or tensor type; both name the byte and the key or tensor.
Result<GgufHeader> parse_gguf(std::span<const std::byte> file, GgufParts parts);

}  // namespace quire
