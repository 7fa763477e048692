// Patterns (text/regex's parser, the dialect of JSON Schema) as expressions over spellings. Anchors and lookahead need
// no machinery here: an expression for all that may follow is passed from right to left, `$` keeps of it only the end,
// (?=x) intersects it with what begins with x, (?!x) with what does not.
#pragma once
#include <string_view>

#include "base/result.h"
#include "text/grammar/rx_chars.h"

namespace quire::grammar {

enum class PatternMeans : uint8_t { whole_text, found_anywhere };

// The texts that `pattern` matches, as spelled by `coder`. Errors name the offset: Code::invalid for what is no
// pattern, Code::unsupported for word boundaries, back-references, lookbehind, and assertions under * or +.
Result<Rx> compile_pattern(std::string_view pattern, PatternMeans means, CharCoder& coder);

}  // namespace quire::grammar
