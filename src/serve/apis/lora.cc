// The operator's endpoints for adapters: which there are, and to load and unload them while the server runs. Paths and
// fields as vLLM and llama.cpp have them.
#include "serve/adapters.h"
#include "serve/api.h"

namespace quire {
namespace {

constexpr int64_t kPathBytes = 4096;

constexpr Field kLoadFields[] = {
    field_of("lora_name", kString),
    {.name = "lora_path", .kinds = kString, .max = kPathBytes},
    flag_field("load_inplace"),
    ignored_field("base_model_name"),
};
constexpr Field kUnloadFields[] = {
    field_of("lora_name", kString),
    ignored_field("lora_int_id"),
};
const Schema kLoad({kLoadFields});
const Schema kUnload({kUnloadFields});

ApiResult<AdapterTable*> table_of(const ServeEnv& env) {
  if (env.adapters != nullptr) return env.adapters;
  return refuse(HttpError{400, "adapters are not available here: " + env.no_adapters, "invalid_request_error", "",
                          "unsupported"});
}

std::vector<std::string> taken_names(const ServeEnv& env) {
  std::vector<std::string> out = env.models;
  for (const ServedPrefix& prefix : env.prefixes) out.push_back(prefix.name);
  return out;
}

Answer done(std::string_view what, const std::string& name) {
  return Answer{.body = Json(Json::Object{{std::string(what), name}}).dump()};
}

ApiResult<Call> load(const ApiRequest& request, const ServeEnv& env) {
  QR_TRY(AdapterTable* const table, table_of(env));
  for (const char* field : {"lora_name", "lora_path"}) {
    if (request.args.text(field).empty()) return refuse(missing_field(field));
  }
  const std::string name(request.args.text("lora_name"));
  if (const Status fits = check_adapter_name(name, taken_names(env), env.limits); !fits)
    return refuse(to_http_error(fits.error(), "lora_name"));
  const bool replace = request.args.flag("load_inplace", false);
  if (const Status loaded = table->load(name, std::string(request.args.text("lora_path")), replace); !loaded)
    return refuse(to_http_error(loaded.error(), loaded.error().code == Code::invalid ? "lora_name" : "lora_path"));
  return done("loaded", name);
}

ApiResult<Call> unload(const ApiRequest& request, const ServeEnv& env) {
  QR_TRY(AdapterTable* const table, table_of(env));
  const std::string name(request.args.text("lora_name"));
  if (name.empty()) return refuse(missing_field("lora_name"));
  if (const Status gone = table->unload(name); !gone) return refuse(to_http_error(gone.error(), "lora_name"));
  return done("unloaded", name);
}

// "id": its place in this list, as it is now. "alora_invocation_tokens": of an activated one, as llama.cpp's server has
// it.
ApiResult<Call> list(const ApiRequest&, const ServeEnv& env) {
  Json::Array out;
  if (env.adapters != nullptr) {
    for (const AdapterTable::Entry& entry : env.adapters->all()) {
      out.push_back(Json::Object{{"id", static_cast<int64_t>(out.size())},
                                 {"name", entry.name},
                                 {"path", entry.folder},
                                 {"bytes", entry.bytes},
                                 {"in_memory", entry.in_memory}});
      if (entry.invocation.empty()) continue;
      Json::Array tokens;
      for (const Token token : entry.invocation) tokens.emplace_back(static_cast<int64_t>(token));
      out.back().as_object()->emplace_back("alora_invocation_tokens", std::move(tokens));
    }
  }
  return Answer{.body = Json(std::move(out)).dump()};
}

const Api kApi{{
    {.method = "POST",
     .path = "/v1/load_lora_adapter",
     .schema = &kLoad,
     .admin = true,
     .parse = &load,
     .summary = "Load an adapter from a folder of this machine"},
    {.method = "POST",
     .path = "/v1/unload_lora_adapter",
     .schema = &kUnload,
     .admin = true,
     .parse = &unload,
     .summary = "Take an adapter's name away"},
    {.method = "GET",
     .path = "/lora-adapters",
     .quick = true,
     .admin = true,
     .parse = &list,
     .summary = "The adapters"},
}};
QR_REGISTER(Api, "lora", kApi);

}  // namespace
}  // namespace quire
