// Sizes as options have them.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace quire {

// "auto" (0) or a number with K, M or G. Code::invalid names `option`.
Result<int64_t> parse_bytes(const char* option, const std::string& text);

}  // namespace quire
