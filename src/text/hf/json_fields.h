// Reading the fields of tokenizer.json: a missing or null field takes its default, a wrong type is an error that names
// the field.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace quire {

inline tl::unexpected<Error> bad_field(std::string_view where, std::string_view key, std::string_view wanted) {
  return fail(Code::corrupt,
              "tokenizer.json: " + std::string(where) + "." + std::string(key) + " must be " + std::string(wanted));
}

// The member, or nullptr where it is absent or null.
inline const Json* field(const Json& object, std::string_view key) {
  const Json* v = object.find(key);
  return v == nullptr || v->is_null() ? nullptr : v;
}

inline Result<std::string> string_field(const Json& object,
                                        std::string_view where,
                                        std::string_view key,
                                        std::string_view fallback) {
  const Json* v = field(object, key);
  if (v == nullptr) return std::string(fallback);
  if (v->as_string() == nullptr) return bad_field(where, key, "a string");
  return *v->as_string();
}

inline Result<bool> bool_field(const Json& object, std::string_view where, std::string_view key, bool fallback) {
  const Json* v = field(object, key);
  if (v == nullptr) return fallback;
  if (v->as_bool() == nullptr) return bad_field(where, key, "true or false");
  return *v->as_bool();
}

inline Result<int64_t> int_field(const Json& object, std::string_view where, std::string_view key, int64_t fallback) {
  const Json* v = field(object, key);
  if (v == nullptr) return fallback;
  if (v->as_int() == nullptr) return bad_field(where, key, "an integer");
  return *v->as_int();
}

inline constexpr size_t kMaxParts = 64;  // of one section: each may be a pattern to compile

// The list of parts that `part` is: a "Sequence" is taken apart (`list_key` names its list), anything else is one part.
Result<std::vector<const Json*>> flatten(const Json* part, std::string_view where, std::string_view list_key);

// The matcher of a "pattern": {"String": …} or {"Regex": …}.
class RegexMatcher;
Result<std::unique_ptr<RegexMatcher>> pattern_field(const Json& object, std::string_view where);

}  // namespace quire
