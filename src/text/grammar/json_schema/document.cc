// See document.h. The document is walked once, with a list of its own, to note where everything lies.
#include "text/grammar/json_schema/document.h"

#include <algorithm>

namespace quire::grammar {

namespace {

// Keywords whose value is a schema, a list of schemas, or an object of schemas.
constexpr std::string_view kSchemas[] = {"additionalItems",
                                         "additionalProperties",
                                         "allOf",
                                         "anyOf",
                                         "contains",
                                         "contentSchema",
                                         "else",
                                         "if",
                                         "items",
                                         "not",
                                         "oneOf",
                                         "prefixItems",
                                         "propertyNames",
                                         "then",
                                         "unevaluatedItems",
                                         "unevaluatedProperties"};
constexpr std::string_view kMaps[] = {
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"};

template <size_t N>
bool one_of(const std::string_view (&list)[N], std::string_view key) {
  return std::find(std::begin(list), std::end(list), key) != std::end(list);
}

std::string_view without_fragment(std::string_view uri) { return uri.substr(0, uri.find('#')); }

// What `ref` means at `base`; the little of RFC 3986 that identifiers of schemas need.
std::string join(std::string_view base, std::string_view ref) {
  base = without_fragment(base);
  if (ref.empty() || ref[0] == '#') return std::string(base) + std::string(ref);
  const size_t colon = ref.find(':');
  if (colon != std::string_view::npos && colon < ref.find_first_of("/#?")) return std::string(ref);
  const size_t authority = base.find("://");
  const size_t path = authority == std::string_view::npos ? 0 : std::min(base.find('/', authority + 3), base.size());
  if (ref[0] == '/') return std::string(base.substr(0, path)) + std::string(ref);
  const size_t slash = base.rfind('/');
  const bool has_dir = slash != std::string_view::npos && slash >= path;
  return std::string(has_dir ? base.substr(0, slash + 1) : base.substr(0, path)) + std::string(ref);
}

// "a~1b%25" → "a/b%"
std::string unescape(std::string_view token) {
  const auto hex = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
  };
  std::string plain;
  for (size_t i = 0; i < token.size(); ++i) {
    const bool coded = token[i] == '%' && i + 2 < token.size() && hex(token[i + 1]) >= 0 && hex(token[i + 2]) >= 0;
    plain += coded ? static_cast<char>(hex(token[i + 1]) * 16 + hex(token[i + 2])) : token[i];
    if (coded) i += 2;
  }
  std::string out;
  for (size_t i = 0; i < plain.size(); ++i) {
    const char next = i + 1 < plain.size() ? plain[i + 1] : '\0';
    const bool escaped = plain[i] == '~' && (next == '0' || next == '1');
    out += escaped ? (next == '0' ? '~' : '/') : plain[i];
    i += escaped ? 1 : 0;
  }
  return out;
}

Draft named_draft(const Json& root, Draft fallback) {
  const Json* named = root.find("$schema");
  const std::string* uri = named != nullptr ? named->as_string() : nullptr;
  if (uri == nullptr) return fallback;
  for (const char* old : {"draft-07", "draft-06", "draft-04", "draft-03", "draft-05"}) {
    if (uri->find(old) != std::string::npos) return Draft::draft7;
  }
  return uri->find("20") != std::string::npos ? Draft::draft2020 : fallback;
}

}  // namespace

std::unique_ptr<SchemaDocument> SchemaDocument::of(Json schema, Draft fallback) {
  auto out = std::make_unique<SchemaDocument>();
  out->root_ = std::move(schema);
  out->draft_ = named_draft(out->root_, fallback);
  out->index();
  return out;
}

void SchemaDocument::enter(const Json* part, const Place& place, bool is_schema) {
  Place here = place;
  const Json::Object* object = part->as_object();
  if (is_schema && object != nullptr && (draft_ != Draft::draft7 || part->find("$ref") == nullptr)) {
    const auto text_of = [&](std::string_view key) {
      const Json* v = part->find(key);
      return v != nullptr ? v->as_string() : nullptr;
    };
    const std::string* id = text_of("$id");
    if (id == nullptr) id = text_of("id");  // draft 4
    if (id != nullptr) {
      const std::string whole = join(bases_[static_cast<size_t>(here.base)], *id);
      by_id_.emplace(whole.ends_with('#') ? whole.substr(0, whole.size() - 1) : whole, part);
      if (id->empty() || (*id)[0] != '#') {
        bases_.emplace_back(without_fragment(whole));
        here.base = static_cast<int>(bases_.size()) - 1;
      }
    }
    for (const std::string_view key : {"$anchor", "$dynamicAnchor"}) {
      const std::string* anchor = text_of(key);
      if (anchor != nullptr) by_id_.emplace(bases_[static_cast<size_t>(here.base)] + "#" + *anchor, part);
    }
  }
  places_.emplace(part, here);
}

void SchemaDocument::index() {
  enum class As : uint8_t { schema, list_or_schema, map, data };
  struct Todo {
    const Json* part;
    As as;
  };
  bases_.emplace_back("");
  by_id_.emplace("", &root_);
  enter(&root_, {}, true);
  std::vector<Todo> todo{{&root_, As::schema}};
  const auto add = [&](const Json* part, const Place& place, As as) {
    enter(part, place, as == As::schema || as == As::list_or_schema);
    todo.push_back({part, as});
  };
  size_t n = 0;
  while (!todo.empty()) {
    const Todo now = todo.back();
    todo.pop_back();
    Place& own = places_.at(now.part);
    own.order = n++;
    const int base = own.base;
    const size_t first = todo.size();
    if (const Json::Object* object = now.part->as_object()) {
      for (const auto& [key, value] : *object) {
        As as = As::data;
        if (now.as == As::map)
          as = As::list_or_schema;
        else if (now.as != As::data && one_of(kSchemas, key))
          as = As::list_or_schema;
        else if (now.as != As::data && one_of(kMaps, key))
          as = As::map;
        Place place{now.part, key, 0, base};
        if (as == As::map) {
          places_.emplace(&value, place);
          todo.push_back({&value, As::map});
        } else {
          add(&value, place, as);
        }
      }
    } else if (const Json::Array* array = now.part->as_array()) {
      const As as = now.as == As::list_or_schema ? As::schema : As::data;
      for (size_t i = 0; i < array->size(); ++i) add(&(*array)[i], {now.part, {}, i, base}, as);
    }
    std::reverse(todo.begin() + static_cast<ptrdiff_t>(first), todo.end());
  }
}

std::string SchemaDocument::pointer(const Json* part) const {
  std::vector<std::string> steps;
  for (const Json* at = part; at != &root_;) {
    const auto it = places_.find(at);
    if (it == places_.end()) break;
    const Place& place = it->second;
    std::string step;
    if (place.parent->as_array() != nullptr) {
      step = std::to_string(place.index);
    } else {
      for (const char c : place.key) step += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
    steps.push_back(std::move(step));
    at = place.parent;
  }
  std::string out = "#";
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) out += "/" + *it;
  return out;
}

const Json* SchemaDocument::at_pointer(const Json* from, std::string_view pointer) const {
  while (!pointer.empty()) {
    if (pointer[0] != '/') return nullptr;
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    const std::string step = unescape(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    if (const Json::Array* array = from->as_array()) {
      const bool number = !step.empty() && step.size() < 7 && step.find_first_not_of("0123456789") == std::string::npos;
      const size_t i = number ? static_cast<size_t>(std::stoul(step)) : array->size();
      if (i >= array->size()) return nullptr;
      from = &(*array)[i];
    } else {
      from = from->find(step);
      if (from == nullptr) return nullptr;
    }
  }
  return from;
}

Result<const Json*> SchemaDocument::resolve(const Json* from, std::string_view ref) const {
  const auto place = places_.find(from);
  const std::string& base = bases_[static_cast<size_t>(place == places_.end() ? 0 : place->second.base)];
  std::string whole = join(base, ref);
  if (whole.ends_with('#')) whole.pop_back();
  if (const auto it = by_id_.find(whole); it != by_id_.end()) return it->second;
  const size_t hash = whole.find('#');
  const auto document = by_id_.find(std::string_view(whole).substr(0, hash));
  if (document == by_id_.end()) {
    return error(Code::unsupported, from, "$ref",
                 "\"" + std::string(ref) + "\" is not in this schema, and nothing is fetched");
  }
  const std::string fragment = hash == std::string::npos ? "" : whole.substr(hash + 1);
  const Json* to = fragment.empty() || fragment[0] == '/' ? at_pointer(document->second, fragment) : nullptr;
  if (to == nullptr) return error(Code::not_found, from, "$ref", "\"" + std::string(ref) + "\" leads nowhere");
  return to;
}

tl::unexpected<Error> SchemaDocument::error(Code code,
                                            const Json* part,
                                            std::string_view keyword,
                                            std::string_view what) const {
  std::string where = pointer(part);
  if (!keyword.empty()) where += "/" + std::string(keyword);
  return fail(code, "json_schema: " + where + ": " + std::string(what));
}

}  // namespace quire::grammar
