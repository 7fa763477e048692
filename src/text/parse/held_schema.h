// What is read of a tool's JSON Schema where arguments are held to it by formats of our own, not as JSON. Pure.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/parse/tag_formats.h"

namespace quire {

// Keywords that hold a value to nothing; "type" is read beside them (kinds_of).
inline bool is_annotation(std::string_view key) {
  static constexpr std::array<std::string_view, 9> kAnnotations{
      "title", "description", "default", "examples", "deprecated", "$comment", "readOnly", "writeOnly", "type"};
  return std::find(kAnnotations.begin(), kAnnotations.end(), key) != kAnnotations.end();
}

// Whether the object `schema` wants this property.
inline bool is_required(const Json& schema, std::string_view key) {
  const Json* names = schema.find("required");
  return names != nullptr && names->as_array() != nullptr &&
         std::find(names->as_array()->begin(), names->as_array()->end(), Json(key)) != names->as_array()->end();
}

// The first name that the object `schema` wants and that is none of its properties; null: there is none.
inline const std::string* required_but_unknown(const Json& schema) {
  const Json* names = schema.find("required");
  const Json* properties = schema.find("properties");
  if (names == nullptr || names->as_array() == nullptr) return nullptr;
  for (const Json& name : *names->as_array())
    if (name.as_string() != nullptr && (properties == nullptr || properties->find(*name.as_string()) == nullptr))
      return name.as_string();
  return nullptr;
}

// How many characters a string has.
struct StringBounds {
  const Json *min = nullptr, *max = nullptr;  // minLength and maxLength of the schema; null: not given
  const std::string* unknown = nullptr;       // its first keyword that is neither, nor an annotation; null: none

  // Of the two, where formats::counted_pattern() has none for them.
  std::string_view wrong() const {
    return max == nullptr || !formats::counted_pattern(min, nullptr) ? "minLength" : "maxLength";
  }
};
// Those of a string's `schema`, with what `annotates` says of its other keywords. REQUIRES an object, which outlives
// what is returned.
inline StringBounds string_bounds(const Json& schema, bool (*annotates)(std::string_view)) {
  StringBounds out;
  for (const auto& [key, value] : *schema.as_object()) {
    if (key == "minLength")
      out.min = &value;
    else if (key == "maxLength")
      out.max = &value;
    else if (!annotates(key) && out.unknown == nullptr)
      out.unknown = &key;
  }
  return out;
}

}  // namespace quire
