// What may be written of the arguments of tagged calls (tagged_arguments.h), as formats of a structural tag.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/parse/call_form.h"

namespace quire {

// Elements in one another, no deeper than this: formats do not recurse.
inline constexpr int kTaggedDepth = 8;

// Any elements.
Json any_tagged(const CallForm& form);
// Elements that obey a JSON Schema whose texts are objects. Code::unsupported, with pointer and keyword, where they
// cannot be held to it.
Result<Json> obeying_tagged(const CallForm& form, const Json& schema);
// One element of this name, a text that obeys a pattern of JSON Schema's dialect.
Json tagged_text(const CallForm& form, std::string_view name, std::string_view pattern);

}  // namespace quire
