// How long a request lets the model think.
#pragma once
#include "serve/api.h"
#include "serve/generation.h"

namespace quire {

// Where the request names a budget: what its rule has to know of this model (sample/thinking_budget.h). A model that
// does not think, or in channels, refuses the field by its name.
ApiResult<void> limit_thinking(const ServeEnv& env, Generation& generation);

}  // namespace quire
