// Grammars in Lark's notation: rules in small letters, terminals in capitals, "strings", /regular expressions/, ranges,
// counts, %ignore and the common terminals. Begins with the rule "start". Terminals are not told apart by which match
// is longest or has priority: a text belongs to the grammar when some reading of it does. Refused: templates, %declare,
// %override, %extend, imports of other than common terminals, flags of expressions but i and s. One directive is ours:
// with %json_string as its last line a grammar describes what stands inside of a JSON string, its characters as JSON
// spells them.
#pragma once
#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"
#include "text/grammar/network.h"

namespace quire {

// Errors: Code::invalid and Code::unsupported name what and its offset; Code::exhausted what is larger than `limits`.
Result<std::shared_ptr<const Grammar>> compile_lark(std::string_view source, const GrammarLimits& limits);

namespace grammar {

// The same as a rule of a larger network.
Result<Rule> lark_rule(std::string_view source, NetworkBuilder& net);

}  // namespace grammar

}  // namespace quire
