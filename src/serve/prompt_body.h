// A prompt without an answer: what a body of POST /v1/completions or of POST /v1/chat/completions makes of its text,
// for endpoints that have to do with the prompt alone. Fields that shape an answer are taken and have no effect.
#pragma once
#include "serve/api.h"
#include "serve/earlier_turns.h"

namespace quire {

// Of such a body. "prompt" or "messages" says which kind it is.
const Schema& prompt_body_schema();

// One prompt and what its cached past depends on, into `job`, which asks for no answer. REQUIRES fields checked by
// prompt_body_schema(). `chat`, where it is not null, is filled with what there is to know of a chat's turns.
ApiResult<void> read_prompt_body(const ApiRequest& request, const ServeEnv& env, Job& job, EarlierChat* chat = nullptr);

}  // namespace quire
