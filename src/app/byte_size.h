// Sizes as options have them.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace quire {

// A number of at least one byte, of KiB, MiB, GiB or TiB with K, M, G or T behind it. Code::invalid names `option`.
Result<int64_t> parse_bytes(const char* option, const std::string& text);

// The same, or "auto": 0.
Result<int64_t> parse_bytes_or_auto(const char* option, const std::string& text);

}  // namespace quire
