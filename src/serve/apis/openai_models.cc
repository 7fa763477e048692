// GET /v1/models and /v1/models/{name}: what this server answers with.
#include <algorithm>

#include "serve/api.h"

namespace quire {
namespace {

void append_model(std::string& out, const std::string& name, const ServeEnv& env) {
  out += "{\"id\":";
  append_json_string(out, name);
  out += ",\"object\":\"model\",\"created\":" + std::to_string(env.started_s) +
         ",\"owned_by\":\"quire\",\"max_model_len\":" + std::to_string(env.n_ctx) + "}";
}

ApiResult<Call> list(const ApiRequest&, const ServeEnv& env) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (size_t i = 0; i < env.models.size(); ++i) {
    if (i > 0) out += ',';
    append_model(out, env.models[i], env);
  }
  return Answer{.body = out + "]}"};
}

ApiResult<Call> retrieve(const ApiRequest& request, const ServeEnv& env) {
  constexpr std::string_view kPrefix = "/v1/models/";
  const std::string name = request.http.path.substr(kPrefix.size());
  if (std::find(env.models.begin(), env.models.end(), name) == env.models.end())
    return refuse(HttpError{404, "the model '" + shown(name) + "' does not exist here", "invalid_request_error",
                            "model", "model_not_found"});
  std::string out;
  append_model(out, name, env);
  return Answer{.body = std::move(out)};
}

const Api kApi{
    {{.method = "GET",
      .path = "/v1/models",
      .quick = true,
      .parse = &list,
      .summary = "OpenAI: the model and its names"},
     {.method = "GET", .path = "/v1/models/*", .quick = true, .parse = &retrieve, .summary = "OpenAI: one of them"}}};
QR_REGISTER(Api, "openai_models", kApi);

}  // namespace
}  // namespace quire
