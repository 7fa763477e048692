// JSON Schema (draft 7 and 2020-12) to a grammar. What an accepted schema says is kept by every text of the grammar;
// what cannot be kept is refused with its JSON pointer, never left out. Unknown keywords and formats are annotations,
// as the standard has it, and formats among the warnings of the grammar. The texts are JSON with properties in the
// schema's order, further ones behind them, white space bounded, characters escaped only where they must be or are
// beyond ASCII, bounded numbers without exponents.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/types.h"
#include "text/grammar/grammar.h"
#include "text/grammar/network.h"

namespace quire {

struct JsonSchemaOptions {
  bool draft7 = false;  // what a schema without $schema is; otherwise 2020-12
  // Not empty: values are written as calls of some models have them (value_syntax.h), strings between two such marks.
  std::string_view string_mark{};
  Token mark_token = -1;  // the control token that the mark is; −1: text
};

// Errors: Code::invalid (no schema), Code::unsupported (cannot be kept), Code::exhausted (larger than `limits`).
Result<std::shared_ptr<const Grammar>> compile_json_schema(std::string_view schema,
                                                           JsonSchemaOptions options,
                                                           const GrammarLimits& limits);
// Any JSON object.
Result<std::shared_ptr<const Grammar>> compile_json_object(const GrammarLimits& limits);

namespace grammar {

// The same as a rule of a larger network, from JSON that is parsed. Warnings are added to `warnings`.
Result<Rule> json_schema_rule(const Json& schema,
                              JsonSchemaOptions options,
                              size_t fuel,
                              NetworkBuilder& net,
                              std::vector<std::string>& warnings);

}  // namespace grammar

}  // namespace quire
