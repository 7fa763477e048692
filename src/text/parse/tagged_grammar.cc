// See tagged_grammar.h. A closing tag names its element where that is known; the parser does not look.
#include "text/parse/tagged_grammar.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "text/parse/argument_kinds.h"
#include "text/parse/held_schema.h"
#include "text/parse/tag_formats.h"
#include "text/parse/tagged_arguments.h"

namespace quire {

using namespace formats;

namespace {

constexpr uint64_t kMostItems = 16;   // that are counted: they are written out
constexpr size_t kElementParts = 16;  // of an element that may lack, beside its value
// A line without blanks at its ends.
constexpr const char* kName = R"([^\x00-\x20\x7f<>\/](?:[^\x00-\x1f\x7f<>]{0,62}[^\x00-\x20\x7f<>])?)";

// Definitions, too, wherever they stand.
bool says_nothing(std::string_view key) {
  return is_annotation(key) || key == "$schema" || key == "$defs" || key == "definitions";
}

// Text up to the next tag.
Json text_of(const CallForm& form, const std::string& pattern) {
  return regex("(?![\\s\\S]*" + quoted_pattern(form.tag_mark) + ")(?:" + pattern + ")");
}

Json element(const CallForm& form, std::string_view name, Json value) {
  const std::string mark(form.tag_mark), own(name);
  return tag(mark + "<" + own + ">", std::move(value), mark + "</" + own + ">");
}

// Elements of any names, `depth` of them in one another at most. None counts, too, where there may be none.
Json any_elements(const CallForm& form, int depth, bool some) {
  const std::string mark(form.tag_mark);
  Json::Array values{text_of(form, "[\\s\\S]*")};
  if (depth > 1) values.push_back(any_elements(form, depth - 1, true));
  Json one = tag(mark + "<",
                 sequence({regex(kName), text(">"), one_of(std::move(values)), text(mark + "</"), regex(kName)}), ">");
  Json out = repeated({std::move(one)});
  if (some) out.set("at_least_one", true);
  return out;
}

Json any_value(const CallForm& form, int depth) {
  Json leaf = text_of(form, "[\\s\\S]*");
  return depth > 0 ? one_of({std::move(leaf), any_elements(form, depth, true)}) : leaf;
}

// How much memory a format takes, in parts of about the same size.
size_t size_of(const Json& format) {
  constexpr size_t kPartBytes = 64;
  size_t out = 0;
  std::vector<const Json*> open{&format};
  while (!open.empty()) {
    const Json& one = *open.back();
    open.pop_back();
    ++out;
    if (const std::string* written = one.as_string()) out += written->size() / kPartBytes;
    if (const Json::Array* list = one.as_array())
      for (const Json& inner : *list) open.push_back(&inner);
    if (const Json::Object* members = one.as_object()) {
      for (const auto& [key, inner] : *members) {
        out += key.size() / kPartBytes;
        open.push_back(&inner);
      }
    }
  }
  return out;
}

class Obeying {
 public:
  // `n_left`: parts that may still be written out.
  Obeying(const CallForm& form, const Json& schema, size_t& n_left) : form_(form), root_(schema), n_left_(n_left) {}

  Result<Json> value(const std::string& at, const Json& given, int depth) {  // as deep as kTaggedDepth
    if (depth == 0)
      return fail(Code::unsupported, at + ": elements nested deeper than " + std::to_string(kTaggedDepth) +
                                         ", as this model writes values, cannot be held to");
    const Json& schema = resolved(given, root_);
    const ValueKinds kinds = kinds_of(schema, root_);
    const bool is_listed = schema.find("enum") != nullptr || schema.find("const") != nullptr;
    if (kinds == kObjectKind && !is_listed) return object(at, schema, depth);
    if (kinds == kArrayKind && !is_listed) return list(at, schema, depth);
    QR_TRY(Json out, is_listed ? listed(at, schema, kinds) : leaf(at, schema, kinds, depth));
    QR_TRY_VOID(charge(at, size_of(out)));
    return out;
  }

  Result<Json> object(const std::string& at, const Json& schema, int depth) {
    static constexpr std::array<std::string_view, 5> kKnown{"properties", "required", "additionalProperties", "$id",
                                                            "strict"};
    for (const auto& [key, unused] : schema.as_object() != nullptr ? *schema.as_object() : Json::Object{})
      if (!says_nothing(key) && std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) return cannot(at, key);
    const Json* properties = schema.find("properties");
    const bool lists = properties != nullptr && properties->as_object() != nullptr;
    if (const std::string* name = required_but_unknown(schema)) return cannot(at + "/required", *name);
    QR_TRY_VOID(charge(at, 1));
    if (!lists) return others(at, schema, depth);
    Json::Array parts;
    for (const auto& [key, own] : *properties->as_object()) {
      const std::string where = at + "/properties/" + key;
      if (!is_name(key)) return fail(Code::unsupported, where + ": no name that this model's tags can hold");
      QR_TRY(Json inner, value(where, own, depth - 1));
      QR_TRY_VOID(charge(where, kElementParts));
      Json one = element(form_, key, std::move(inner));
      parts.push_back(is_required(schema, key) ? std::move(one) : optional(std::move(one)));
    }
    return parts.empty() ? text("") : sequence(std::move(parts));
  }

 private:
  static tl::unexpected<Error> cannot(const std::string& at, std::string_view keyword) {
    return fail(Code::unsupported, at + ": \"" + std::string(keyword) +
                                       "\" is what values in tags, as this model writes them, cannot be held to");
  }
  Status charge(const std::string& at, size_t n_parts) {
    if (n_parts > n_left_)
      return fail(Code::unsupported, at + ": schemas of tools that take more than " + std::to_string(kTaggedParts) +
                                         " parts together, written out as this model's tags, cannot be held to");
    n_left_ -= n_parts;
    return {};
  }

  // Neither elements that are known nor listed values.
  Result<Json> leaf(const std::string& at, const Json& schema, ValueKinds kinds, int depth) {
    if (schema.as_object() == nullptr) return any_value(form_, depth - 1);
    if (kinds == kStringKind) return string(at, schema);
    if ((kinds & (kNestedKinds | kStringKind)) == 0) return json_schema(with_definitions(schema));
    if (kinds != kEveryKind && (kinds & kNestedKinds) != 0) return cannot(at, "type");
    QR_TRY_VOID(plain(at, schema));
    return kinds == kEveryKind ? any_value(form_, depth - 1) : any_value(form_, 0);
  }
  static bool is_name(std::string_view key) {
    return !key.empty() && key.size() <= 64 && key.front() != ' ' && key.front() != '/' && key.back() != ' ' &&
           std::none_of(key.begin(), key.end(), [](char c) {
             return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '<' || c == '>';
           });
  }
  // Nothing but annotations, and alternatives whose kinds are known.
  static Status plain(const std::string& at, const Json& schema) {
    for (const auto& [key, value] : *schema.as_object()) {
      if (says_nothing(key)) continue;
      if ((key != "anyOf" && key != "oneOf") || value.as_array() == nullptr) return cannot(at, key);
      for (const Json& way : *value.as_array())
        if (way.as_object() == nullptr || !std::all_of(way.as_object()->begin(), way.as_object()->end(),
                                                       [](const auto& m) { return says_nothing(m.first); }))
          return cannot(at, key);
    }
    return {};
  }

  // An object of which no name is listed.
  Result<Json> others(const std::string& at, const Json& schema, int depth) {
    const Json* rest = schema.find("additionalProperties");
    if (rest != nullptr && rest->as_bool() != nullptr && !*rest->as_bool()) return text("");
    if (rest == nullptr || rest->as_object() == nullptr) {
      Json any = depth > 1 ? any_elements(form_, depth - 1, false) : text("");
      QR_TRY_VOID(charge(at, size_of(any)));
      return any;
    }
    QR_TRY(Json inner, value(at + "/additionalProperties", *rest, depth - 1));
    const std::string mark(form_.tag_mark);
    QR_TRY_VOID(charge(at, kElementParts));
    return repeated(
        {tag(mark + "<", sequence({regex(kName), text(">"), std::move(inner), text(mark + "</"), regex(kName)}), ">")});
  }

  Result<Json> list(const std::string& at, const Json& schema, int depth) {
    uint64_t min = 0, max = kMostItems + 1;
    const Json* items = nullptr;
    for (const auto& [key, given] : *schema.as_object()) {
      if (key == "items") {
        items = &given;
      } else if (key == "minItems" || key == "maxItems") {
        const double n = given.is_number() ? given.number() : -1;
        if (n < 0 || n > static_cast<double>(kMostItems)) return cannot(at, key);
        (key == "minItems" ? min : max) = static_cast<uint64_t>(n);
      } else if (!says_nothing(key)) {
        return cannot(at, key);
      }
    }
    if (min > max) return cannot(at, "maxItems");
    Json inner;
    if (items != nullptr) {
      QR_TRY(inner, value(at + "/items", *items, depth - 1));
    } else {
      inner = any_value(form_, depth - 1);
      QR_TRY_VOID(charge(at, size_of(inner)));
    }
    const Json one = element(form_, kListItem, std::move(inner));
    const uint64_t n_written = max > kMostItems ? min + 1 : max;
    QR_TRY_VOID(charge(at, n_written * (size_of(one) + kElementParts)));
    Json::Array parts(min, one);
    if (max > kMostItems) {
      parts.push_back(repeated({one}));
    } else {
      Json more = text("");
      for (uint64_t n = min; n < max; ++n) more = optional(sequence({one, std::move(more)}));
      parts.push_back(std::move(more));
    }
    return sequence(std::move(parts));
  }

  Result<Json> string(const std::string& at, const Json& schema) const {
    const StringBounds bounds = string_bounds(schema, says_nothing);
    if (bounds.unknown != nullptr) return cannot(at, *bounds.unknown);
    const auto counted = counted_pattern(bounds.min, bounds.max);
    if (!counted) return cannot(at, bounds.wrong());
    return text_of(form_, *counted);
  }

  Result<Json> listed(const std::string& at, const Json& schema, ValueKinds kinds) const {
    const Json* value = schema.find("const");
    const Json* values = schema.find("enum");
    const char* keyword = value != nullptr ? "const" : "enum";
    const Json::Array only = value != nullptr ? Json::Array{*value} : Json::Array{};
    const Json::Array* all = value != nullptr ? &only : values->as_array();
    if (all == nullptr || all->empty()) return cannot(at, keyword);
    Json::Array ways;
    for (const Json& one : *all) {
      const std::string written = one.as_string() != nullptr ? *one.as_string() : one.dump();
      const auto read = Json::parse(json_of_value(kinds, written));
      if (!read || *read != one || (kind_of(one) & kNestedKinds) != 0 ||
          written.find(form_.tag_mark) != std::string::npos)
        return cannot(at, keyword);
      ways.push_back(text(written));
    }
    return one_of(std::move(ways));
  }

  Json with_definitions(const Json& schema) const {
    Json out = schema;
    if (schema.dump().find("\"$ref\"") == std::string::npos) return out;
    for (const char* key : {"$defs", "definitions", "$schema"})
      if (const Json* found = root_.find(key)) out.set(key, *found);
    return out;
  }

  const CallForm& form_;
  const Json& root_;
  size_t& n_left_;
};

}  // namespace

Json any_tagged(const CallForm& form) { return any_elements(form, kTaggedDepth, false); }

Result<Json> obeying_tagged(const CallForm& form, const Json& schema, size_t& n_left) {
  return Obeying(form, schema, n_left).object("#", schema, kTaggedDepth);
}

Json tagged_text(const CallForm& form, std::string_view name, std::string_view pattern) {
  return element(form, name, text_of(form, pattern.empty() ? "[\\s\\S]*" : std::string(pattern)));
}

}  // namespace quire
