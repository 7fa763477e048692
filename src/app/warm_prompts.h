// The file of --warm-prompts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

// Its lines, JSON values as serve/warm_prompts.h takes them; empty ones are left out. Refuses a file that cannot be
// read, that has none, more than `most` of them or more than 64 MiB.
Result<std::vector<std::string>> read_warm_prompts(const std::string& path, int64_t most);

}  // namespace quire
