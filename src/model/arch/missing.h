// Architectures that are known and not computed: a file of one is refused with what it needs, docs/architectures.md
// lists them.
#pragma once
#include <array>

#include "model/model.h"

namespace quire {

inline constexpr auto kMissingArchs = std::to_array<MissingArch>({
    {"deepseek_v32", "deepseek32", "an indexer picks the keys that a row sees (sparse attention)"},
    {"deepseek_v4", "deepseek4",
     "keys are compressed and picked, residual streams are mixed, experts chosen by hashes"},
    {"glm_moe_dsa", "glm-dsa", "an indexer picks the keys that a row sees (sparse attention)"},
    {"hy_v4", "", "an indexer picks the keys that a row sees, and residual streams are mixed (hyper-connections)"},
    {"qwen4_exp", "",
     "an indexer picks the keys that a row sees, residual streams are mixed, runs of tokens have embeddings"},
});

}  // namespace quire
