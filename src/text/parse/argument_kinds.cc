#include "text/parse/argument_kinds.h"

#include <algorithm>
#include <array>

#include "text/parse/json_span.h"
#include "text/parse/tag_formats.h"

namespace quire {
namespace {

constexpr size_t kMaxSchemas = 64;      // of one value, references followed
constexpr size_t kFlatBytes = 8 << 10;  // of names in a pattern, half of what a pattern may have

// As call_arguments.cc has names of free arguments.
bool is_key(std::string_view name) {
  constexpr size_t kKeyChars = 64;
  const auto n_chars = std::count_if(name.begin(), name.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return !name.empty() && static_cast<size_t>(n_chars) <= kKeyChars;
}

ValueKinds named_kind(std::string_view type) {
  static constexpr std::array<std::pair<std::string_view, ValueKinds>, 7> kNames{
      {{"string", kStringKind},
       {"integer", kIntegerKind},
       {"number", kIntegerKind | kFractionKind},
       {"boolean", kBoolKind},
       {"null", kNullKind},
       {"object", kObjectKind},
       {"array", kArrayKind}}};
  for (const auto& [name, kind] : kNames)
    if (type == name) return kind;
  return kEveryKind;
}

ValueKinds kinds_of_type(const Json& type) {
  if (type.as_string() != nullptr) return named_kind(*type.as_string());
  if (type.as_array() == nullptr) return kEveryKind;
  ValueKinds out = 0;
  for (const Json& one : *type.as_array())
    out |= one.as_string() != nullptr ? named_kind(*one.as_string()) : kEveryKind;
  return out;
}

// What a JSON pointer within the document names ("#/$defs/side"); null where nothing.
const Json* resolve(const Json& root, std::string_view reference) {
  if (!reference.starts_with("#/")) return nullptr;
  const Json* at = &root;
  for (size_t begin = 2; at != nullptr && begin <= reference.size();) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    at = at->find(reference.substr(begin, end - begin));
    begin = end + 1;
  }
  return at;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

ValueKinds kind_of(const Json& value) {
  if (value.as_string() != nullptr) return kStringKind;
  if (value.as_int() != nullptr) return kIntegerKind;
  if (value.as_double() != nullptr) return kFractionKind;
  if (value.as_bool() != nullptr) return kBoolKind;
  if (value.as_object() != nullptr) return kObjectKind;
  return value.as_array() != nullptr ? kArrayKind : kNullKind;
}

const Json& resolved(const Json& schema, const Json& root) {
  const Json* at = &schema;
  for (int i = 0; i < 16; ++i) {
    const Json* next = nullptr;
    const Json* reference = at->find("$ref");
    const Json* all = at->find("allOf");
    if (reference != nullptr && reference->as_string() != nullptr)
      next = resolve(root, *reference->as_string());
    else if (all != nullptr && all->as_array() != nullptr && all->as_array()->size() == 1 &&
             at->find("type") == nullptr)
      next = &all->as_array()->front();
    if (next == nullptr) return *at;
    at = next;
  }
  return schema;
}

ValueKinds kinds_of(const Json& schema, const Json& root) {
  std::vector<const Json*> open{&schema};
  ValueKinds out = 0;
  for (size_t i = 0; i < open.size(); ++i) {
    if (i == kMaxSchemas || open[i]->as_object() == nullptr) return kEveryKind;
    const Json& one = *open[i];
    const Json* values = one.find("enum");
    if (const Json* type = one.find("type")) {
      out |= kinds_of_type(*type);
    } else if (const Json* value = one.find("const")) {
      out |= kind_of(*value);
    } else if (values != nullptr && values->as_array() != nullptr) {
      for (const Json& v : *values->as_array()) out |= kind_of(v);
    } else if (const Json* reference = one.find("$ref"); reference != nullptr && reference->as_string() != nullptr) {
      const Json* target = resolve(root, *reference->as_string());
      if (target == nullptr) return kEveryKind;
      open.push_back(target);
    } else {
      const size_t before = open.size();
      for (const char* key : {"anyOf", "oneOf", "allOf"}) {
        const Json* list = one.find(key);
        if (list == nullptr || list->as_array() == nullptr) continue;
        for (const Json& inner : *list->as_array()) open.push_back(&inner);
      }
      if (open.size() == before) return kEveryKind;
    }
  }
  return out;
}

ArgumentKinds::ArgumentKinds(const Json& parameters) : schema_(std::make_shared<const Json>(parameters)) {
  const Json* properties = parameters.find("properties");
  if (properties == nullptr || properties->as_object() == nullptr) return;
  for (const auto& [key, schema] : *properties->as_object()) kinds_.emplace_back(key, kinds_of(schema, parameters));
  size_t n_bytes = 0;
  for (const std::string& name : flat_names()) n_bytes += formats::quoted_pattern(name).size() + 1;
  all_may_nest_ = n_bytes > kFlatBytes;
}

ValueKinds ArgumentKinds::of(std::string_view key) const {
  const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const auto& k) { return k.first == key; });
  return found != kinds_.end() ? found->second : kEveryKind;
}

std::vector<std::string> ArgumentKinds::flat_names() const {
  std::vector<std::string> out;
  if (all_may_nest_) return out;
  for (const auto& [key, kinds] : kinds_)
    if ((kinds & kNestedKinds) == 0 && is_key(key)) out.push_back(key);
  return out;
}

std::string json_of_value(ValueKinds kinds, std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPython{
      {{"True", "true"}, {"False", "false"}, {"None", "null"}}};
  std::string_view read = trimmed(text);
  for (const auto& [theirs, ours] : kPython)
    if (read == theirs) read = ours;
  if (kinds != kStringKind) {
    const auto value = Json::parse(read);
    if (value && value->as_string() == nullptr && (kind_of(*value) & kinds) != 0) return std::string(read);
  }
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace quire
