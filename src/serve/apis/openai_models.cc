// GET /v1/models and /v1/models/{name}: what this server answers with.
#include <algorithm>

#include "base/utc_time.h"
#include "serve/adapters.h"
#include "serve/openai.h"

namespace quire {
namespace {

// Whether it is an adapter that adds from its invocation on: before that the model's own blocks are used.
bool is_activated(std::string_view name, const ServeEnv& env) {
  if (env.adapters == nullptr) return false;
  const std::string_view own = name.substr(name.rfind(':') + 1);  // all of it where there is no ':'
  const auto all = env.adapters->all();
  return std::ranges::any_of(all, [&](const auto& entry) { return entry.name == own && !entry.invocation.empty(); });
}

void append_model(std::string& out, const std::string& name, const ServeEnv& env) {
  const ServedPrefix* prefix = prefix_of_model(name, env.models, env.prefixes);
  const int64_t n_ctx = env.n_ctx - (prefix != nullptr ? prefix->n_tokens : 0);
  out += "{\"id\":";
  append_json_string(out, name);
  out += ",\"object\":\"model\",\"created\":" + std::to_string(env.started_s) +
         ",\"owned_by\":\"quire\",\"max_model_len\":" + std::to_string(n_ctx);
  if (std::ranges::find(env.models, name) == env.models.end()) {
    const size_t at = name.rfind(':');
    out += ",\"parent\":";
    append_json_string(out, at == std::string::npos ? env.models[0] : name.substr(0, at));
    if (is_activated(name, env)) out += ",\"activated\":true";
  }
  out += '}';
}

// As Anthropic's clients expect it; they say which version of it.
bool asks_anthropic(const ApiRequest& request) { return request.http.header("anthropic-version") != nullptr; }

Json anthropic_model(const std::string& name, const ServeEnv& env) {
  return Json::Object{{"type", "model"}, {"id", name}, {"display_name", name}, {"created_at", utc_time(env.started_s)}};
}

std::string anthropic_list(const ServeEnv& env) {
  const std::vector<std::string> names = served_names(env);
  Json::Array data;
  for (const std::string& name : names) data.push_back(anthropic_model(name, env));
  return Json(Json::Object{{"data", std::move(data)},
                           {"has_more", false},
                           {"first_id", names.front()},
                           {"last_id", names.back()}})
      .dump();
}

ApiResult<Call> list(const ApiRequest& request, const ServeEnv& env) {
  if (asks_anthropic(request)) return Answer{.body = anthropic_list(env)};
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (const std::string& name : served_names(env)) {
    if (!out.ends_with('[')) out += ',';
    append_model(out, name, env);
  }
  return Answer{.body = out + "]}"};
}

ApiResult<Call> retrieve(const ApiRequest& request, const ServeEnv& env) {
  constexpr std::string_view kPrefix = "/v1/models/";
  const std::string name = request.http.path.substr(kPrefix.size());
  const std::vector<std::string> names = served_names(env);
  if (std::find(names.begin(), names.end(), name) == names.end())
    return refuse(HttpError{404, "the model '" + shown(name) + "' does not exist here", "invalid_request_error",
                            "model", "model_not_found"});
  if (asks_anthropic(request)) return Answer{.body = anthropic_model(name, env).dump()};
  std::string out;
  append_model(out, name, env);
  return Answer{.body = std::move(out)};
}

const Api kApi{
    {{.method = "GET",
      .path = "/v1/models",
      .also = "/models",
      .quick = true,
      .parse = &list,
      .summary = "OpenAI: the model and its names"},
     {.method = "GET", .path = "/v1/models/*", .quick = true, .parse = &retrieve, .summary = "OpenAI: one of them"}}};
QR_REGISTER(Api, "openai_models", kApi);

}  // namespace
}  // namespace quire
