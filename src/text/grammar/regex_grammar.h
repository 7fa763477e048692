// Grammars that are one regular expression, or one of a list of texts.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace quire {

// The whole answer matches `pattern` (dialect of JSON Schema: ECMA-262 with the flag u). Errors name the offset.
Result<std::shared_ptr<const Grammar>> compile_regex(std::string_view pattern, const GrammarLimits& limits);

// The answer is one of `choices`, exactly. Code::invalid when there is none or they are too long together.
Result<std::shared_ptr<const Grammar>> compile_choice(std::span<const std::string> choices,
                                                      const GrammarLimits& limits);

}  // namespace quire
