// Which kinds of values the parameters of a tool take, for families that write values without quotes: "02134" stays a
// string where a string is wanted, and is 2134 nowhere. Plain data.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace quire {

using ValueKinds = uint8_t;  // a set of these
inline constexpr ValueKinds kStringKind = 1, kIntegerKind = 2, kFractionKind = 4, kBoolKind = 8, kNullKind = 16,
                            kObjectKind = 32, kArrayKind = 64, kEveryKind = 127;
inline constexpr ValueKinds kNestedKinds = kObjectKind | kArrayKind;

// Of a JSON Schema as a part of `root`, to which its references point: all that it may let through, at least.
ValueKinds kinds_of(const Json& schema, const Json& root);
// The schema that stands for it behind references (and allOf of one); itself where they lead nowhere.
const Json& resolved(const Json& schema, const Json& root);
// The one kind of a value.
ValueKinds kind_of(const Json& value);

class ArgumentKinds {
 public:
  ArgumentKinds() = default;                       // of all arguments: any
  explicit ArgumentKinds(const Json& parameters);  // a JSON Schema
  ValueKinds of(std::string_view key) const;
  // The schema that they were made of; null where there was none.
  const Json* schema() const { return schema_.get(); }
  // Whether a value is read as one that may be a list or an object, whose strings hold marks. Where the names that
  // cannot be are more than one pattern of a grammar holds, every value of the tool is.
  bool may_nest(std::string_view key) const { return all_may_nest_ || (of(key) & kNestedKinds) != 0; }
  // The names of those that are read otherwise, without what no mark takes as a name.
  std::vector<std::string> flat_names() const;

 private:
  bool all_may_nest_ = false;
  std::shared_ptr<const Json> schema_;
  std::vector<std::pair<std::string, ValueKinds>> kinds_;
};

// JSON of a value that is written as `text`: of another kind than a string where it reads as one of `kinds`, as Python
// writes True, False and None too; otherwise the string.
std::string json_of_value(ValueKinds kinds, std::string_view text);

}  // namespace quire
