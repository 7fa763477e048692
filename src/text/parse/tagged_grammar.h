// What may be written of the arguments of tagged calls (tagged_arguments.h), as formats of a structural tag.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/parse/call_form.h"

namespace quire {

// Elements in one another, no deeper than this: formats do not recurse.
inline constexpr int kTaggedDepth = 8;

// What the schemas of one request's tools may take together, written out: an item that is counted stands there as often
// as it may come, and a schema that is referred to wherever it is. About 300 bytes each.
inline constexpr size_t kTaggedParts = 100'000;

// Any elements.
Json any_tagged(const CallForm& form);
// Elements that obey a JSON Schema whose texts are objects. Code::unsupported, with pointer and keyword, where they
// cannot be held to it, or it takes more than `n_left` parts, which are less afterwards.
Result<Json> obeying_tagged(const CallForm& form, const Json& schema, size_t& n_left);
// One element of this name, a text that obeys a pattern of JSON Schema's dialect.
Json tagged_text(const CallForm& form, std::string_view name, std::string_view pattern);

}  // namespace quire
