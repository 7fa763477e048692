// How long a request's cached past is to stay, in the names of OpenAI (prompt_cache_retention) and of TensorRT-LLM
// (kv_cache_retention_config), read into one form.
#pragma once
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "serve/schema.h"

namespace quire {

struct Retention {
  // Of the prompt; an end below 0 is the prompt's.
  std::vector<RetentionRange> prompt;
  // Of the answer, whose tokens these are: [0, 1); the usual priority: nothing is said of it.
  RetentionRange answer;
};

// "in_memory" is what happens anyway; "24h" keeps the prompt for a day before all that nothing is said of. Refuses both
// fields together.
ApiResult<Retention> read_retention(const Args& args, const Reading& reading);

// For the engine: of a path whose prompt has n_prompt tokens.
std::vector<RetentionRange> retention_of(const Retention& retention, int n_prompt);

}  // namespace quire
