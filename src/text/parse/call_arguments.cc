// See call_arguments.h. Between marks a string is written as it is, anything else as JSON. A string may be held to its
// values or its length; a value of several kinds only where each reading obeys.
#include "text/parse/call_arguments.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/parse/argument_kinds.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 9> kAnnotations{"title",    "description", "default",   "examples", "deprecated",
                                                       "$comment", "readOnly",    "writeOnly", "type"};

Json text(std::string_view value) { return Json::Object{{"type", "const_string"}, {"value", value}}; }
Json sequence(Json::Array parts) { return Json::Object{{"type", "sequence"}, {"elements", std::move(parts)}}; }
Json one_of(Json::Array ways) { return Json::Object{{"type", "or"}, {"elements", std::move(ways)}}; }
Json regex(std::string pattern) { return Json::Object{{"type", "regex"}, {"pattern", std::move(pattern)}}; }
Json json_schema(const Json& schema) { return Json::Object{{"type", "json_schema"}, {"json_schema", schema}}; }
Json any_object() { return Json::Object{{"type", "object"}}; }

std::string value_end(const CallForm& form) { return (form.padded ? "\n" : "") + std::string(form.value_end); }

// Text up to the mark that ends it, in front of which the line end may lack.
Json any_text(const CallForm& form) {
  return Json::Object{
      {"type", "tag"}, {"begin", ""}, {"content", Json::Object{{"type", "any_text"}}}, {"end", form.value_end}};
}

std::string in_pattern(std::string_view text) {
  constexpr std::string_view kMeta = R"(\^$.|?*+()[]{}/-)";
  std::string out;
  for (const char c : text) {
    if (kMeta.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// Any name up to the mark that ends it, as the parser reads them: one line, and no blank at either end, which models
// would write and mean nothing by.
std::string any_key(const CallForm& form) {
  const std::string end = in_pattern(form.key_end.substr(0, 1));
  const std::string edge = "[^\\x00-\\x20\\x7f" + end + "]", inner = "[^\\x00-\\x1f\\x7f" + end + "]";
  return edge + "(?:" + inner + "{0,62}" + edge + ")?";
}

class Obeying {
 public:
  Obeying(const CallForm& form, const Json& schema) : form_(form), root_(schema) {}

  Result<Json> run() {
    for (const auto& [key, value] : *root_.as_object()) {
      static constexpr std::array<std::string_view, 8> kKnown{
          "properties", "required", "additionalProperties", "$schema", "$defs", "definitions", "$id", "strict"};
      if (!is_annotation(key) && std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) return cannot("#", key);
    }
    Json::Array parts;
    const Json* properties = root_.find("properties");
    if (properties != nullptr && properties->as_object() != nullptr) {
      for (const auto& [key, schema] : *properties->as_object()) {
        QR_TRY(Json part, argument(key, resolved(schema, root_)));
        parts.push_back(required(key) ? std::move(part) : one_of({std::move(part), text("")}));
      }
    }
    if (const Json* names = root_.find("required"); names != nullptr && names->as_array() != nullptr) {
      for (const Json& name : *names->as_array())
        if (name.as_string() != nullptr && (properties == nullptr || properties->find(*name.as_string()) == nullptr))
          return fail(Code::unsupported,
                      "#/required: \"" + *name.as_string() + "\" is none of the properties, which " + kMeans);
    }
    if (parts.empty()) return text("");
    return sequence(std::move(parts));
  }

 private:
  static constexpr const char* kMeans = "values between marks, as this model writes them, cannot be held to";

  static tl::unexpected<Error> cannot(const std::string& at, std::string_view keyword) {
    return fail(Code::unsupported, at + ": \"" + std::string(keyword) + "\" is what " + kMeans);
  }
  static bool is_annotation(std::string_view key) {
    return std::find(kAnnotations.begin(), kAnnotations.end(), key) != kAnnotations.end();
  }
  bool required(std::string_view key) const {
    const Json* names = root_.find("required");
    return names != nullptr && names->as_array() != nullptr &&
           std::find(names->as_array()->begin(), names->as_array()->end(), Json(key)) != names->as_array()->end();
  }

  Result<Json> argument(const std::string& key, const Json& schema) {
    const std::string at = "#/properties/" + key;
    if (key.empty() || key.find(form_.key_end[0]) != std::string::npos || key.find('\n') != std::string::npos)
      return fail(Code::unsupported, at + ": no name that this model's marks can hold");
    Json::Array parts{
        text(std::string(form_.key_begin) + key + std::string(form_.key_end) + (form_.padded ? "\n" : ""))};
    const ValueKinds kinds = kinds_of(schema, root_);
    const Json* values = schema.find("enum");
    const Json* value = schema.find("const");
    if (values != nullptr || value != nullptr) {
      QR_TRY(Json ways, listed(at, kinds, values, value));
      parts.push_back(std::move(ways));
    } else if ((kinds & kStringKind) == 0) {
      parts.push_back(json_schema(with_definitions(schema)));
      parts.push_back(text(value_end(form_)));
    } else {
      QR_TRY(Json string, kinds == kStringKind ? plain_string(at, schema) : mixed(at, schema));
      parts.push_back(std::move(string));
    }
    parts.push_back(text("\n"));
    return sequence(std::move(parts));
  }

  // A part of the schema, with what its references point to.
  Json with_definitions(const Json& schema) const {
    Json out = schema;
    for (const char* key : {"$defs", "definitions", "$schema"})
      if (const Json* found = root_.find(key); found != nullptr && out.as_object() != nullptr) out.set(key, *found);
    return out;
  }

  Result<Json> listed(const std::string& at, ValueKinds kinds, const Json* values, const Json* value) {
    const Json::Array only = value != nullptr ? Json::Array{*value} : Json::Array{};
    const Json::Array* list = value != nullptr ? &only : values->as_array();
    if (list == nullptr || list->empty()) return cannot(at, "enum");
    Json::Array ways;
    for (const Json& one : *list) {
      const std::string written = one.as_string() != nullptr ? *one.as_string() : one.dump();
      const auto read = Json::parse(json_of_value(kinds, written));
      if (!read || *read != one || written.find(form_.value_end) != std::string::npos)
        return cannot(at, value != nullptr ? "const" : "enum");
      ways.push_back(text(written + value_end(form_)));
    }
    return one_of(std::move(ways));
  }

  Result<Json> plain_string(const std::string& at, const Json& schema) {
    const Json *min = nullptr, *max = nullptr;
    for (const auto& [key, value] : *schema.as_object()) {
      if (key == "minLength")
        min = &value;
      else if (key == "maxLength")
        max = &value;
      else if (!is_annotation(key))
        return cannot(at, key);
    }
    if (min == nullptr && max == nullptr) return any_text(form_);
    const auto bound = [](const Json* n, std::string otherwise) {
      return n != nullptr ? std::to_string(static_cast<int64_t>(n->number())) : std::move(otherwise);
    };
    std::string pattern =
        "(?![\\s\\S]*" + in_pattern(form_.value_end) + ")[\\s\\S]{" + bound(min, "0") + "," + bound(max, "") + "}";
    return sequence({regex(std::move(pattern)), text(value_end(form_))});
  }

  // Whatever comes is of one of the types, or a string.
  Result<Json> mixed(const std::string& at, const Json& schema) {
    if (schema.as_object() == nullptr) return any_text(form_);
    std::vector<const Json*> open{&schema};
    for (size_t i = 0; i < open.size(); ++i) {
      for (const auto& [key, value] : *open[i]->as_object()) {
        if (is_annotation(key)) continue;
        if (i > 0 || (key != "anyOf" && key != "oneOf") || value.as_array() == nullptr) return cannot(at, key);
        for (const Json& inner : *value.as_array()) {
          if (inner.as_object() == nullptr) return cannot(at, key);
          open.push_back(&inner);
        }
      }
    }
    return any_text(form_);
  }

  const CallForm& form_;
  const Json& root_;
};

}  // namespace

Json any_arguments(const CallForm& form) {
  if (!form.marked()) return json_schema(any_object());
  Json one = Json::Object{{"type", "tag"},
                          {"begin", form.key_begin},
                          {"content", sequence({regex(any_key(form)), text(form.key_end)})},
                          {"end", form.padded ? "\n" : ""}};
  Json both = Json::Object{
      {"type", "tag"}, {"begin", ""}, {"content", sequence({std::move(one), any_text(form)})}, {"end", "\n"}};
  return Json::Object{{"type", "tags_with_separator"}, {"tags", Json::Array{std::move(both)}}, {"separator", ""}};
}

Result<Json> obeying_arguments(const CallForm& form, const Json& schema) {
  if (!form.marked()) return json_schema(schema);
  return Obeying(form, schema).run();
}

}  // namespace quire
