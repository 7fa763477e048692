// Files that options name.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// All bytes of a file, which may be a pipe. Errors name the option and the path: Code::io where it cannot be read,
// Code::invalid where it has more than `most` bytes, of which no more are read.
Result<std::string> read_text_file(std::string_view option, const std::string& path, int64_t most);
// All that stdin gives, likewise.
Result<std::string> read_stdin(int64_t most);

}  // namespace quire
