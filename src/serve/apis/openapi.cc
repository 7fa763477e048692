// GET /openapi.json: this server's endpoints and their fields, made from the registry and the tables that requests are
// checked by. A field that several endpoints share is described once, under components.
#include <algorithm>
#include <cmath>
#include <map>

#include "serve/api.h"

namespace quire {
namespace {

using Names = std::map<const Field*, std::string>;

Json type_names(uint8_t kinds) {
  static constexpr std::pair<uint8_t, const char*> kNames[] = {{kBool, "boolean"},  {kInteger, "integer"},
                                                               {kNumber, "number"}, {kString, "string"},
                                                               {kArray, "array"},   {kObject, "object"}};
  Json::Array out;
  for (const auto& [kind, name] : kNames)
    if ((kinds & kind) != 0) out.emplace_back(name);
  out.emplace_back("null");  // counts as absent
  return out;
}

void set_bound(Json& out, const char* name, double bound) {
  if (std::abs(bound) == kNoMax) return;
  const auto whole = static_cast<int64_t>(bound);
  out.set(name, static_cast<double>(whole) == bound ? Json(whole) : Json(bound));
}

Json describe_unsupported(const Field& f) {
  Json::Array values{nullptr};
  for (const std::string_view text : f.neutral)
    if (auto value = Json::parse(text); !text.empty() && value) values.push_back(std::move(*value));
  return Json::Object{{"enum", std::move(values)}, {"description", "Not supported yet: no other value is taken."}};
}

Json describe(const Field& f, const ServeLimits& limits) {
  if (f.use == Field::Use::unsupported || f.use == Field::Use::foreign) return describe_unsupported(f);
  if (f.use == Field::Use::ignored) return Json::Object{{"description", "Taken and without effect here."}};
  Json out = Json::Object{{"type", type_names(f.kinds)}};
  const double max = f.limit != nullptr ? static_cast<double>(limits.*f.limit) : f.max;
  if ((f.kinds & (kInteger | kNumber)) != 0) {
    set_bound(out, "minimum", f.min);
    set_bound(out, "maximum", max);
  }
  if ((f.kinds & kString) != 0) set_bound(out, "maxLength", max);
  if ((f.kinds & kArray) != 0) set_bound(out, "maxItems", max);
  if ((f.kinds & kObject) != 0) set_bound(out, "maxProperties", max);
  return out;
}

template <class F>
void for_each_endpoint(const F& f) {
  for (const std::string& name : Registry<Api>::get().names())
    for (const Endpoint& endpoint : Registry<Api>::get().find(name)->endpoints) f(endpoint);
}

// Names of those that more than one endpoint has: the field's own, numbered where that is taken.
Names shared_fields() {
  std::map<const Field*, int> n_uses;
  std::vector<const Field*> in_order;
  for_each_endpoint([&](const Endpoint& e) {
    if (e.schema == nullptr) return;
    for (const Field* f : e.schema->fields())
      if (++n_uses[f] == 2) in_order.push_back(f);
  });
  Names out;
  std::map<std::string, int> n_named;
  for (const Field* f : in_order) {
    std::string name(f->name);
    if (const int n = ++n_named[name]; n > 1) name += "." + std::to_string(n);
    out.emplace(f, std::move(name));
  }
  return out;
}

Json describe_body(const Schema& schema, const Names& shared, const ServeLimits& limits) {
  Json::Object properties;
  for (const Field* f : schema.fields()) {
    if (!f->same_as.empty()) {
      properties.emplace_back(f->name,
                              Json::Object{{"description", "Another name of " + std::string(f->same_as) + "."}});
      continue;
    }
    const auto at = shared.find(f);
    properties.emplace_back(f->name, at == shared.end()
                                         ? describe(*f, limits)
                                         : Json(Json::Object{{"$ref", "#/components/schemas/" + at->second}}));
  }
  Json content = Json::Object{{"schema", Json::Object{{"type", "object"}, {"properties", std::move(properties)}}}};
  return Json::Object{{"required", true}, {"content", Json::Object{{"application/json", std::move(content)}}}};
}

Json describe_endpoint(const Endpoint& e, const Names& shared, const ServeLimits& limits) {
  Json out = Json::Object{{"summary", e.summary}};
  if (e.path.ends_with("/*")) {
    Json name = Json::Object{{"name", "name"}, {"in", "path"}, {"required", true}};
    name.set("schema", Json::Object{{"type", "string"}, {"minLength", 1}});
    out.set("parameters", Json::Array{std::move(name)});
  }
  if (e.schema != nullptr) out.set("requestBody", describe_body(*e.schema, shared, limits));
  out.set("responses", Json::Object{{"200", Json::Object{{"description", "The answer, or its stream."}}},
                                    {"default", Json::Object{{"description", "A refusal, in the dialect's form."}}}});
  if (!e.open) out.set("security", Json::Array{Json::Object{{"key", Json::Array{}}}, Json::Object{}});
  return out;
}

std::string description_of(const ServeLimits& limits) {
  const Names shared = shared_fields();
  std::map<std::string, Json> by_path;
  for_each_endpoint([&](const Endpoint& e) {
    std::string path(e.path);
    if (path.ends_with("/*")) path.replace(path.size() - 1, 1, "{name}");
    std::string method(e.method);
    for (char& c : method) c = static_cast<char>(c - 'A' + 'a');
    by_path[path].set(method, describe_endpoint(e, shared, limits));
  });
  Json::Object paths, fields;
  paths.reserve(by_path.size());
  fields.reserve(shared.size());
  for (auto& [path, methods] : by_path) paths.emplace_back(path, std::move(methods));
  for (const auto& [field, name] : shared) fields.emplace_back(name, describe(*field, limits));
  std::sort(fields.begin(), fields.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json out = Json::Object{{"openapi", "3.1.0"}};
  out.set("info", Json::Object{{"title", "Quire"}, {"version", QR_VERSION}});
  out.set("paths", std::move(paths));
  Json key = Json::Object{{"type", "http"}, {"scheme", "bearer"}};
  out.set("components",
          Json::Object{{"schemas", std::move(fields)}, {"securitySchemes", Json::Object{{"key", std::move(key)}}}});
  return out.dump();
}

ApiResult<Call> openapi(const ApiRequest&, const ServeEnv& env) {
  return Call(Answer{.body = description_of(env.limits)});
}

const Api kApi{
    {{.method = "GET", .path = "/openapi.json", .open = true, .parse = &openapi, .summary = "This description"}}};
QR_REGISTER(Api, "openapi", kApi);

}  // namespace
}  // namespace quire
