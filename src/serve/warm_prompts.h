// What an operator wants in the cache before the first request: prompts that are computed and pinned at the start. They
// are public like those of public_prompts.h, or nobody who comes with a key would find them.
#pragma once
#include <limits>
#include <span>
#include <string>

#include "engine/engine.h"
#include "serve/api.h"

namespace quire {

class PublicPrompts;

// Who owns them: no client does.
inline constexpr uint64_t kOperatorPins = std::numeric_limits<uint64_t>::max();

// Each of `lines` is JSON: a string, which is a prompt as it stands, or the body of POST /v1/cache/pin without
// cache_salt. Waits until all are pinned; one that cannot be ends it, naming its number. REQUIRES a running engine.
Status warm_up(std::span<const std::string> lines, const ServeEnv& env, Engine& engine, PublicPrompts& prompts);

}  // namespace quire
