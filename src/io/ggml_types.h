// GGUF's numbers for tensor types, with the size of their blocks: the whole list, whether or not quire has a weight
// format for them, so that a file's ranges can be checked and its types named.
// Source: the GGUF specification (ggml/docs/gguf.md) and the type traits of ggml.
#pragma once
#include <cstdint>
#include <string_view>

namespace quire {

struct GgmlType {
  uint32_t id;
  std::string_view name;
  int block;  // elements
  int bytes;  // of a block
};

const GgmlType* find_ggml_type(uint32_t id);  // nullptr when GGUF has no such type (or no longer)

}  // namespace quire
