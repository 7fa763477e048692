// See context.h.
#include "text/grammar/json_schema/context.h"

#include <cmath>

#include "text/grammar/json_schema/formats.h"
#include "text/grammar/pattern.h"

namespace quire::grammar {

Status SchemaContext::spend(size_t steps) {
  if (rx.exhausted()) return fail(Code::exhausted, "json_schema: #: it takes more memory to compile than allowed");
  if (fuel < steps) {
    return fail(Code::exhausted,
                "json_schema: #: it takes more than " + std::to_string(steps_allowed) + " steps to compile");
  }
  fuel -= steps;
  return {};
}

Result<Rx> SchemaContext::pattern(const Json* at, std::string_view keyword, std::string_view text) {
  const auto it = patterns_.find(text);
  if (it != patterns_.end()) return it->second;
  QR_TRY_VOID(spend(text.size() + 1));
  const auto compiled = compile_pattern(text, PatternMeans::found_anywhere, chars);
  if (!compiled) return document.error(compiled.error().code, at, keyword, compiled.error().message);
  patterns_.emplace(text, *compiled);
  return *compiled;
}

Result<std::optional<Rx>> SchemaContext::format(const Json* at, std::string_view name) {
  const std::string_view text = format_pattern(name);
  if (text.empty()) {
    warnings.push_back("json_schema: " + document.pointer(at) + "/format: \"" + std::string(name) +
                       "\" is not known and says nothing");
    return std::nullopt;
  }
  QR_TRY(const Rx out, pattern(at, "format", text));
  return out;
}

std::string spell_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out.substr(1, out.size() - 2);
}

bool SchemaContext::spells(Rx strings, std::string_view text) {
  return rx.matches(strings, syntax.spelling == Spelling::json ? spell_json(text) : std::string(text));
}

Result<uint64_t> SchemaContext::count_of(const Json* schema, std::string_view keyword, const Json& value) const {
  if (const int64_t* i = value.as_int(); i != nullptr && *i >= 0) return static_cast<uint64_t>(*i);
  if (const double* d = value.as_double(); d != nullptr && *d >= 0 && *d == std::floor(*d)) {
    return *d < 9e18 ? static_cast<uint64_t>(*d) : Shape::kUnbounded - 1;
  }
  return document.error(Code::invalid, schema, keyword, "must be a whole number that is not negative");
}

Result<const std::string*> SchemaContext::string_of(const Json* schema,
                                                    std::string_view keyword,
                                                    const Json& value) const {
  if (const std::string* s = value.as_string()) return s;
  return document.error(Code::invalid, schema, keyword, "must be a string");
}

Result<const Json::Array*> SchemaContext::array_of(const Json* schema,
                                                   std::string_view keyword,
                                                   const Json& value) const {
  if (const Json::Array* a = value.as_array()) return a;
  return document.error(Code::invalid, schema, keyword, "must be an array");
}

Result<const Json::Object*> SchemaContext::object_of(const Json* schema,
                                                     std::string_view keyword,
                                                     const Json& value) const {
  if (const Json::Object* o = value.as_object()) return o;
  return document.error(Code::invalid, schema, keyword, "must be an object");
}

Result<Decimal> SchemaContext::number_of(const Json* schema, std::string_view keyword, const Json& value) const {
  if (value.is_number()) return Decimal::of(value);
  return document.error(Code::invalid, schema, keyword, "must be a number");
}

Status SchemaContext::check_schema(const Json* value) const {
  if (value->as_object() != nullptr || value->as_bool() != nullptr) return {};
  return document.error(Code::invalid, value, "", "a schema must be an object, true or false");
}

}  // namespace quire::grammar
