// The facts of a GGUF header: typed values and arrays, read from a bounded reader. Used by gguf.cc only.
#pragma once
#include <cstdint>
#include <optional>

#include "base/bounded_reader.h"
#include "io/model_file.h"

namespace quire {

// One value of GGUF value type `type`; nothing for an array of arrays, whose bytes are checked and passed over.
// Errors: Code::corrupt with the byte.
Result<std::optional<MetaValue>> read_gguf_value(BoundedReader& reader, uint32_t type);

}  // namespace quire
