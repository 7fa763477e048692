// How long a request lets the model think.
#pragma once
#include "serve/api.h"

namespace quire {

// Whether one token, or a text, ends the thoughts, so that a budget can force it: messages and channels have no such
// mark, and that of Kimi K3's sections is of several tokens.
bool one_mark_ends(const ReasoningForm& form);

// Where the request names a budget: what its rule has to know of this model (sample/thinking_budget.h). A model that
// does not think, or whose thoughts no such mark ends, refuses the field by its name. A chat that names none has the
// server's.
ApiResult<void> limit_thinking(const ServeEnv& env, Job& job);

}  // namespace quire
