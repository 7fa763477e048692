// See shape_rx.h.
#include "text/grammar/json_schema/shape_rx.h"

namespace quire::grammar {

namespace {

constexpr uint32_t kMaxIndent = 64;
// Lengths beyond this count as no limit: no answer has as many characters.
constexpr uint64_t kMostChars = 2'000'000'000;

uint32_t clipped(uint64_t n) { return n > kMostChars ? kNoLimit : static_cast<uint32_t>(n); }

}  // namespace

Rx space_rx(RxStore& rx) {
  const Rx line = rx.cat(rx.optional(rx.byte('\r')), rx.byte('\n'));
  const Rx indent = rx.alt({rx.repeat(rx.byte(' '), 0, kMaxIndent), rx.repeat(rx.byte('\t'), 0, kMaxIndent)});
  return rx.optional(rx.alt({rx.byte(' '), rx.cat(line, indent)}));
}

Rx around_rx(RxStore& rx, char mark) {
  const Rx space = space_rx(rx);
  return rx.cat({space, rx.byte(static_cast<uint8_t>(mark)), space});
}

Rx string_rx(SchemaContext& c, const Shape& shape) {
  std::vector<Rx> all = shape.texts;
  const auto min = static_cast<uint32_t>(std::min(shape.min_chars, kMostChars));
  const uint32_t max = shape.max_chars == Shape::kUnbounded ? kNoLimit : clipped(shape.max_chars);
  if (all.empty() || min > 0 || max != kNoLimit) all.push_back(c.rx.repeat(c.chars.any(), min, max));
  const Rx out = c.rx.both(std::move(all));
  return c.rx.alive(out) ? out : RxStore::kNever;
}

Rx value_text_rx(SchemaContext& c, const Json& value) {  // as deep as JSON nests (kMaxJsonDepth)
  RxStore& rx = c.rx;
  if (const std::string* s = value.as_string()) return rx.cat({rx.byte('"'), c.chars.text(*s), rx.byte('"')});
  if (value.is_number()) return rx.literal(Decimal::of(value).text());
  const Json::Array* array = value.as_array();
  const Json::Object* object = value.as_object();
  if (array == nullptr && object == nullptr) return rx.literal(value.dump());
  std::vector<Rx> parts;
  if (array != nullptr) {
    for (const Json& v : *array) parts.push_back(value_text_rx(c, v));
  } else {
    for (const auto& [name, v] : *object) {
      parts.push_back(rx.cat({value_text_rx(c, Json(name)), around_rx(rx, ':'), value_text_rx(c, v)}));
    }
  }
  const Rx open = rx.cat(rx.byte(array != nullptr ? '[' : '{'), space_rx(rx));
  Rx out = rx.byte(array != nullptr ? ']' : '}');
  if (!parts.empty()) out = rx.cat(space_rx(rx), out);
  for (size_t i = parts.size(); i-- > 0;) {
    out = rx.cat(parts[i], out);
    if (i > 0) out = rx.cat(around_rx(rx, ','), out);
  }
  return rx.cat(open, out);
}

Result<Rx> scalar_rx(SchemaContext& c, const Shape& shape) {
  RxStore& rx = c.rx;
  std::vector<Rx> parts;
  if (shape.values) {
    QR_TRY_VOID(c.spend(shape.values->size()));
    for (const Json* v : *shape.values) parts.push_back(value_text_rx(c, *v));
    return rx.alt(std::move(parts));
  }
  if ((shape.types & kNull) != 0) parts.push_back(rx.literal("null"));
  if ((shape.types & kTrue) != 0) parts.push_back(rx.literal("true"));
  if ((shape.types & kFalse) != 0) parts.push_back(rx.literal("false"));
  if ((shape.types & kString) != 0) {
    parts.push_back(rx.cat({rx.byte('"'), string_rx(c, shape), rx.byte('"')}));
  }
  if ((shape.types & kNumber) != 0) {
    const std::optional<Rx> number = number_rx(rx, shape.number);
    if (!number) return fail(Code::unsupported, "json_schema: #: multipleOf has too many digits to count with");
    parts.push_back(*number);
  }
  return rx.alt(std::move(parts));
}

}  // namespace quire::grammar
