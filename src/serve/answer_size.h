// How large an answer may become, told from the fields of its request before any work for it begins. Pure.
#pragma once
#include <optional>

#include "serve/api.h"
#include "serve/api_error.h"

namespace quire {

// What is counted for one entry of a list of logprobs (a token's name, its number and what is around them), for the
// text of one token, and for one number of a vector. Answers of ordinary vocabularies come out smaller.
inline constexpr int64_t kEntryBytes = 64, kTokenTextBytes = 8, kFloatBytes = 24;
// A streamed answer counts only where its writer keeps it: then so many times, which is how often its end repeats it.
inline constexpr int64_t kKeptTimes = 6;

// 400 where the answer could be larger than limits.answer_bytes: it names the product of fields, the limit and the
// value. Where the request leaves the length open (max_tokens), it is set to what there is room for, if that is less
// than the context. REQUIRES the job's writer, and prompts that fit the context.
std::optional<HttpError> bound_answer(const ServeEnv& env, Job& job);

}  // namespace quire
