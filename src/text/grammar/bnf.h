// Grammars in GBNF (llama.cpp's notation) and in EBNF as the W3C and other engines write it. Both name their start rule
// "root". Of EBNF: 'single' quotes, #xN, /* comments */ and A - B, beside all of GBNF. A token stands for itself as
// <[ID]>; control tokens come in no other way.
#pragma once
#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"
#include "text/grammar/network.h"

namespace quire {

// Errors: Code::invalid names what is wrong and its offset; Code::exhausted what is larger than `limits`.
Result<std::shared_ptr<const Grammar>> compile_gbnf(std::string_view source, const GrammarLimits& limits);
Result<std::shared_ptr<const Grammar>> compile_ebnf(std::string_view source, const GrammarLimits& limits);

namespace grammar {

// The same as a rule of a larger network.
Result<Rule> bnf_rule(std::string_view source, std::string_view notation, NetworkBuilder& net);

}  // namespace grammar

}  // namespace quire
