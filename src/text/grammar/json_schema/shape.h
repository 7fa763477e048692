// What is left of schemas when their logic is taken apart: a shape is one alternative, plain conditions per type, all
// of which hold. Parts of values are again sets of schemas (keys), each to be held or to be broken.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/grammar/json_schema/number.h"
#include "text/grammar/rx.h"

namespace quire::grammar {

// A schema of the document by number, times two, plus one where it must not hold.
using Signed = uint32_t;
using Key = std::vector<Signed>;  // sorted, all at once; empty: anything

using Types = uint8_t;
inline constexpr Types kNull = 1, kTrue = 2, kFalse = 4, kNumber = 8, kString = 16, kArray = 32, kObject = 64;
inline constexpr Types kAllTypes = 127;

struct Shape {
  Types types = kAllTypes;

  NumberRules number;
  const Json* multiple_at = nullptr;  // the last schema that says multipleOf

  std::vector<Rx> texts;  // spellings of the string, without quotes
  uint64_t min_chars = 0, max_chars = kUnbounded;

  struct NamedSchema {
    std::string name;
    Signed schema;
  };
  struct SomeProperty {  // some property with such a name and value is there
    Rx name;
    Key value;
    const Json* at;
  };
  std::vector<const Json*> object_groups;  // schemas with properties, patternProperties, additionalProperties
  std::vector<std::string> required;
  std::set<std::string, std::less<>> forbidden;
  std::vector<NamedSchema> named;
  std::vector<Rx> names;
  std::vector<SomeProperty> some;
  uint64_t min_properties = 0, max_properties = kUnbounded;

  struct IndexedSchema {
    size_t index;
    Signed schema;
  };
  struct Contains {
    Signed schema;
    uint64_t min, max;
    const Json* at;
  };
  std::vector<const Json*> array_groups;  // schemas with items, prefixItems, additionalItems
  std::vector<IndexedSchema> indexed;
  std::vector<Contains> contains;
  uint64_t min_items = 0, max_items = kUnbounded;
  const Json* unique = nullptr;  // the schema that says uniqueItems

  std::optional<std::vector<const Json*>> values;  // these and nothing else; all other conditions are settled
  std::vector<const Json*> not_values;             // arrays and objects that it must not be

  static constexpr uint64_t kUnbounded = ~uint64_t{0};
};

}  // namespace quire::grammar
