// See shape_rx.h.
#include "text/grammar/json_schema/shape_rx.h"

namespace quire::grammar {

namespace {

// Lengths beyond this count as no limit: no answer has as many characters.
constexpr uint64_t kMostChars = 2'000'000'000;

uint32_t clipped(uint64_t n) { return n > kMostChars ? kNoLimit : static_cast<uint32_t>(n); }

}  // namespace

Rx around_rx(SchemaContext& c, char mark) {
  return c.rx.cat({c.syntax.space, c.rx.byte(static_cast<uint8_t>(mark)), c.syntax.space});
}

Rx string_rx(SchemaContext& c, const Shape& shape) {
  std::vector<Rx> all = shape.texts;
  const auto min = static_cast<uint32_t>(std::min(shape.min_chars, kMostChars));
  const uint32_t max = shape.max_chars == Shape::kUnbounded ? kNoLimit : clipped(shape.max_chars);
  if (all.empty() || min > 0 || max != kNoLimit) all.push_back(c.rx.repeat(c.chars.any(), min, max));
  if (c.syntax.strings != RxStore::kAny) all.push_back(c.syntax.strings);
  const Rx out = c.rx.both(std::move(all));
  return c.rx.alive(out) ? out : RxStore::kNever;
}

static Rx quoted_rx(SchemaContext& c, Rx string) { return c.rx.cat({c.syntax.quote, string, c.syntax.quote}); }
static Rx name_rx(SchemaContext& c, const std::string& name) {
  return c.syntax.bare ? c.chars.text(name) : quoted_rx(c, c.chars.text(name));
}

Rx value_text_rx(SchemaContext& c, const Json& value) {  // as deep as JSON nests (kMaxJsonDepth)
  RxStore& rx = c.rx;
  if (const std::string* s = value.as_string()) return quoted_rx(c, c.chars.text(*s));
  if (value.is_number()) return rx.literal(Decimal::of(value).text());
  const Json::Array* array = value.as_array();
  const Json::Object* object = value.as_object();
  if (array == nullptr && object == nullptr) return rx.literal(value.dump());
  std::vector<Rx> parts;
  if (array != nullptr) {
    for (const Json& v : *array) parts.push_back(value_text_rx(c, v));
  } else {
    for (const auto& [name, v] : *object)
      parts.push_back(rx.cat({name_rx(c, name), around_rx(c, ':'), value_text_rx(c, v)}));
  }
  const Rx open = rx.cat(rx.byte(array != nullptr ? '[' : '{'), c.syntax.space);
  Rx out = rx.byte(array != nullptr ? ']' : '}');
  if (!parts.empty()) out = rx.cat(c.syntax.space, out);
  for (size_t i = parts.size(); i-- > 0;) {
    out = rx.cat(parts[i], out);
    if (i > 0) out = rx.cat(around_rx(c, ','), out);
  }
  return rx.cat(open, out);
}

bool can_be_written(SchemaContext& c, const Json& value) {
  if (c.syntax.spelling == Spelling::json) return true;
  std::vector<const Json*> open{&value};
  for (size_t i = 0; i < open.size(); ++i) {
    if (const std::string* s = open[i]->as_string(); s != nullptr && !c.spells(c.syntax.strings, *s)) return false;
    if (const Json::Array* array = open[i]->as_array())
      for (const Json& v : *array) open.push_back(&v);
    if (open[i]->as_object() == nullptr) continue;
    for (const auto& [name, v] : *open[i]->as_object()) {
      if (!c.spells(c.syntax.listed_name, name)) return false;
      open.push_back(&v);
    }
  }
  return true;
}

Result<Rx> scalar_rx(SchemaContext& c, const Shape& shape) {
  RxStore& rx = c.rx;
  std::vector<Rx> parts;
  if (shape.values) {
    QR_TRY_VOID(c.spend(shape.values->size()));
    for (const Json* v : *shape.values) {
      if (!can_be_written(c, *v))
        return fail(Code::unsupported, "json_schema: #: a listed value holds what this model's calls cannot");
      parts.push_back(value_text_rx(c, *v));
    }
    return rx.alt(std::move(parts));
  }
  if ((shape.types & kNull) != 0) parts.push_back(rx.literal("null"));
  if ((shape.types & kTrue) != 0) parts.push_back(rx.literal("true"));
  if ((shape.types & kFalse) != 0) parts.push_back(rx.literal("false"));
  if ((shape.types & kString) != 0) parts.push_back(quoted_rx(c, string_rx(c, shape)));
  if ((shape.types & kNumber) != 0) {
    const std::optional<Rx> number = number_rx(rx, shape.number);
    if (!number) return fail(Code::unsupported, "json_schema: #: multipleOf has too many digits to count with");
    parts.push_back(*number);
  }
  return rx.alt(std::move(parts));
}

}  // namespace quire::grammar
