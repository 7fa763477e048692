// What all parts of the JSON Schema front end share while one schema is compiled. One thread.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/grammar/json_schema/document.h"
#include "text/grammar/json_schema/shape.h"
#include "text/grammar/json_schema/value_syntax.h"
#include "text/grammar/rx_chars.h"

namespace quire::grammar {

// Members of a list that a search for one looks at in a step of fuel.
inline constexpr size_t kLookedAtAStep = 64;

struct SchemaContext {
  SchemaContext(const SchemaDocument& d, RxStore& store, size_t steps, const ValueSyntax& written)
      : document(d), rx(store), syntax(written), chars(store, written.spelling), fuel(steps), steps_allowed(steps) {}

  const SchemaDocument& document;
  RxStore& rx;
  const ValueSyntax syntax;
  CharCoder chars;
  std::vector<std::string> warnings;
  size_t fuel;
  const size_t steps_allowed;

  Status spend(size_t steps);
  Signed sign(const Json* schema, bool negated) {
    const auto [it, fresh] = numbers_.emplace(schema, static_cast<uint32_t>(schemas_.size()));
    if (fresh) schemas_.push_back(schema);
    return it->second * 2 + (negated ? 1 : 0);
  }
  const Json* schema(Signed s) const { return schemas_[s / 2]; }
  static bool negated(Signed s) { return (s & 1) != 0; }

  // The strings that `pattern` (found anywhere) or a format admits, as spellings without quotes. `at`: whose keyword.
  Result<Rx> pattern(const Json* at, std::string_view keyword, std::string_view pattern);
  // Nothing where the format is not known; that is noted as a warning.
  Result<std::optional<Rx>> format(const Json* at, std::string_view name);
  bool spells(Rx strings, std::string_view text);  // whether `strings` has the text, spelled in one of its ways
  Rx any_string() { return rx.star(chars.any()); }

  // Values of keywords, checked. Code::invalid names what is wrong.
  Result<uint64_t> count_of(const Json* schema, std::string_view keyword, const Json& value) const;
  Result<const std::string*> string_of(const Json* schema, std::string_view keyword, const Json& value) const;
  Result<const Json::Array*> array_of(const Json* schema, std::string_view keyword, const Json& value) const;
  Result<const Json::Object*> object_of(const Json* schema, std::string_view keyword, const Json& value) const;
  Result<Decimal> number_of(const Json* schema, std::string_view keyword, const Json& value) const;
  Status check_schema(const Json* value) const;  // an object or a truth value

 private:
  std::unordered_map<const Json*, uint32_t> numbers_;
  std::vector<const Json*> schemas_;
  std::map<std::string, Rx, std::less<>> patterns_;
};

// How one string is spelled in the canonical way: what `spells` and literals use.
std::string spell_json(std::string_view text);

}  // namespace quire::grammar
