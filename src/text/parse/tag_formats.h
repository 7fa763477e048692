// Formats of a structural tag (grammar/structural_tag.h), put together as JSON.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace quire::formats {

inline Json text(std::string_view value) { return Json::Object{{"type", "const_string"}, {"value", value}}; }
inline Json sequence(Json::Array parts) { return Json::Object{{"type", "sequence"}, {"elements", std::move(parts)}}; }
inline Json one_of(Json::Array ways) {
  if (ways.size() == 1) return std::move(ways[0]);
  return Json::Object{{"type", "or"}, {"elements", std::move(ways)}};
}
inline Json optional(Json part) { return one_of({std::move(part), text("")}); }
inline Json regex(std::string pattern) { return Json::Object{{"type", "regex"}, {"pattern", std::move(pattern)}}; }
inline Json json_schema(const Json& schema) { return Json::Object{{"type", "json_schema"}, {"json_schema", schema}}; }
// Any number of them, one behind another.
inline Json repeated(Json::Array tags) {
  return Json::Object{{"type", "tags_with_separator"}, {"tags", std::move(tags)}, {"separator", ""}};
}
inline Json tag(std::string_view begin, Json content, std::string_view end) {
  return Json::Object{{"type", "tag"}, {"begin", begin}, {"content", std::move(content)}, {"end", end}};
}

// `text` as it is, in a pattern.
inline std::string quoted_pattern(std::string_view text) {
  constexpr std::string_view kMeta = R"(\^$.|?*+()[]{}/-)";
  std::string out;
  for (const char c : text) {
    if (kMeta.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace quire::formats
