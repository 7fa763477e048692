// Tools for models whose chat template shows none: they are told in words, and the model is asked to write calls in one
// of the forms of parse/formats, which a model that follows instructions can do. Pure functions, any thread.
#pragma once
#include <string_view>

#include "base/json.h"
#include "text/parse/call_form.h"

namespace quire {

inline constexpr std::string_view kToldForm = "hermes";  // the form that is asked for

// Rewrites `messages`, strings in "role" and "content" and calls as OpenAI has them, into ones without calls and
// results: a call is text of the assistant's, a result text of the user's, joined to the results before it and to what
// the user says next, because templates want turns to alternate. `tools`, where it is not null, is told at the head of
// the user's first message, which every template shows. The rest stays as it is. REQUIRES a form whose calls are
// objects without ids.
void tell_tools(Json::Array& messages, const Json& tools, const CallForm& form);

}  // namespace quire
