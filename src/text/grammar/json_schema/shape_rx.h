// The parts of a shape that are one lexeme.
#pragma once
#include <optional>

#include "text/grammar/json_schema/context.h"
#include "text/grammar/json_schema/shape.h"

namespace quire::grammar {

// The strings of a shape, spelled, without quotes.
Rx string_rx(SchemaContext& context, const Shape& shape);
// A value as JSON text, white space where it may be; keys in the order given.
Rx value_text_rx(SchemaContext& context, const Json& value);
// All of a shape but its arrays and objects; listed values with those.
Result<Rx> scalar_rx(SchemaContext& context, const Shape& shape);

Rx around_rx(SchemaContext& context, char mark);  // a mark with white space around it
// Whether the strings and names in a value can be written at all.
bool can_be_written(SchemaContext& context, const Json& value);

}  // namespace quire::grammar
