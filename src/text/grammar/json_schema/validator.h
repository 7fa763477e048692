// Whether a value that is known obeys a schema: what listed values (enum, const) are sifted with. Exact or an error,
// never a guess.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "text/grammar/json_schema/context.h"

namespace quire::grammar {

// JSON's equality: numbers by value, objects without order.
bool equal_json(const Json& a, const Json& b);

class Validator {
 public:
  explicit Validator(SchemaContext& context) : c_(context) {}

  Result<bool> valid(const Json& value, const Json* schema) { return valid(value, schema, 0); }
  Result<bool> holds(const Json& value, const Key& key);

 private:
  static constexpr int kMaxDepth = 256;  // of schemas in schemas, references included

  Result<bool> valid(const Json& value, const Json* schema, int depth);
  Result<bool> keyword(const Json& value, const Json* schema, const Json::Member& member, int depth);
  Result<bool> logic(const Json& value, const Json* schema, const Json::Member& member, int depth);
  Result<bool> number(const Json& value, const Json* schema, const Json::Member& member);
  Result<bool> text(const Json& value, const Json* schema, const Json::Member& member);
  Result<bool> array(const Json& value, const Json* schema, const Json::Member& member, int depth);
  Result<bool> object(const Json& value, const Json* schema, const Json::Member& member, int depth);
  Result<bool> additional(const Json& value, const Json* schema, const Json* rest, int depth);
  Result<bool> dependency(const Json& value, const Json* schema, const Json::Member& member, int depth);
  Result<bool> listed(const Json& value, const Json* schema, const Json& list);

  SchemaContext& c_;
  std::unordered_map<const Json*, std::unordered_set<std::string>> listed_;  // by the list: its values, normalised
};

// A text that equal values share.
std::string normal_text(const Json& value);

// Whether a value is of the type that a schema names; nothing where there is no such type.
std::optional<bool> is_of_type(const Json& value, std::string_view type);

}  // namespace quire::grammar
