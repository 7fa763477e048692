// How arguments may be written in a family's calls, as formats of a structural tag: JSON, values between marks, or
// Python.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/parse/argument_kinds.h"
#include "text/parse/call_form.h"

namespace quire {

// Any arguments in the family's syntax, as the parser reads those of a tool with these kinds.
Json any_arguments(const CallForm& form, const ArgumentKinds& kinds);
// Arguments that obey a JSON Schema whose texts are objects. Code::unsupported, with pointer and keyword, where values
// between marks, or arguments in Python as a whole, cannot be held to it. What JSON cannot be held to shows when the
// format is compiled. `n_left`: how much tagged calls may still have written out (tagged_grammar.h), all tools of a
// request together; without it, of this tool alone.
Result<Json> obeying_arguments(const CallForm& form, const Json& schema, size_t& n_left);
Result<Json> obeying_arguments(const CallForm& form, const Json& schema);
// Arguments that are one string of this name, whose text obeys a regular expression (JSON Schema's dialect; an empty
// one is any text) or a grammar in Lark's notation. Code::unsupported where such a grammar cannot be kept, because
// strings stand between marks that their text must not hold.
enum class TextNotation : uint8_t { regex, lark };
inline constexpr std::string_view kInputName = "input";
Result<Json> obeying_input(const CallForm& form, TextNotation notation, std::string_view definition);

}  // namespace quire
