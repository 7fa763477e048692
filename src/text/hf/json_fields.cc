// See json_fields.h.
#include "text/hf/json_fields.h"

#include "text/regex/matcher.h"

namespace quire {

Result<std::vector<const Json*>> flatten(const Json* part, std::string_view where, std::string_view list_key) {
  std::vector<const Json*> out, todo;
  if (part != nullptr && !part->is_null()) todo.push_back(part);
  while (!todo.empty()) {
    const Json* now = todo.back();
    todo.pop_back();
    QR_TRY(const std::string type, string_field(*now, where, "type", ""));
    if (type != "Sequence") {
      if (out.size() == kMaxParts) return bad_field(where, list_key, "at most " + std::to_string(kMaxParts) + " parts");
      out.push_back(now);
      continue;
    }
    const Json* list = field(*now, list_key);
    if (list == nullptr || list->as_array() == nullptr) return bad_field(where, list_key, "a list");
    for (auto it = list->as_array()->rbegin(); it != list->as_array()->rend(); ++it) todo.push_back(&*it);
  }
  return out;
}

Result<std::unique_ptr<RegexMatcher>> pattern_field(const Json& object, std::string_view where) {
  const Json* pattern = field(object, "pattern");
  if (pattern == nullptr) return bad_field(where, "pattern", "there");
  if (const Json* literal = field(*pattern, "String")) {
    if (literal->as_string() == nullptr || literal->as_string()->empty()) {
      return bad_field(where, "pattern.String", "a string that is not empty");
    }
    return make_literal_matcher(*literal->as_string());
  }
  const Json* regex = field(*pattern, "Regex");
  if (regex == nullptr || regex->as_string() == nullptr) return bad_field(where, "pattern", "a String or a Regex");
  return make_matcher(*regex->as_string(), {.dollar_before_newline = true});
}

}  // namespace quire
