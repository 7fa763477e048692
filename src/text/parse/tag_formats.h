// Formats of a structural tag (grammar/structural_tag.h), put together as JSON.
#pragma once
#include <cstdint>
#include <optional>
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

// Any characters, between so many as minLength and maxLength say, either of which may be null. Nothing where one is no
// whole number of 0 to 10^9.
inline std::optional<std::string> counted_pattern(const Json* min, const Json* max) {
  constexpr int64_t kMostChars = 1'000'000'000;
  for (const Json* n : {min, max})
    if (n != nullptr && (n->as_int() == nullptr || *n->as_int() < 0 || *n->as_int() > kMostChars)) return std::nullopt;
  const std::string least = min != nullptr ? min->dump() : "0", most = max != nullptr ? max->dump() : "";
  return "[\\s\\S]{" + least + "," + most + "}";
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
