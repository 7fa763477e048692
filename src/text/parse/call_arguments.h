// How arguments may be written in a family's calls, as formats of a structural tag: JSON, values between marks, or
// Python.
#pragma once
#include "base/json.h"
#include "base/result.h"
#include "text/parse/call_form.h"

namespace quire {

// Any arguments in the family's syntax.
Json any_arguments(const CallForm& form);
// Arguments that obey a JSON Schema whose texts are objects. Code::unsupported, with pointer and keyword, where values
// between marks, or arguments in Python as a whole, cannot be held to it. What JSON cannot be held to shows when the
// format is compiled.
Result<Json> obeying_arguments(const CallForm& form, const Json& schema);

}  // namespace quire
