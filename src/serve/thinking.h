// How long a request lets the model think.
#pragma once
#include "serve/api.h"

namespace quire {

// Where the request names a budget: what its rule has to know of this model (sample/thinking_budget.h). A model that
// does not think, or in channels, refuses the field by its name. A chat that names none has the server's.
ApiResult<void> limit_thinking(const ServeEnv& env, Job& job);

}  // namespace quire
