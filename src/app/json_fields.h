// What is looked up in JSON that others wrote.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace quire {

// The string of that name in an object; null where there is none.
inline const std::string* string_at(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr ? value->as_string() : nullptr;
}

}  // namespace quire
