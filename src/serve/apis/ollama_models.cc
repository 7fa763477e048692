// Ollama's dialect: what is there (/api/tags, /api/ps, /api/show, /api/version), and what would fetch it (/api/pull).
#include <algorithm>
#include <ctime>

#include "base/utc_time.h"
#include "http/error_form.h"
#include "serve/api.h"
#include "serve/ollama.h"
#include "serve/openai.h"
#include "serve/reply_writer.h"

namespace quire {
namespace {

constexpr Field kShow[] = {
    field_of("model", kString, &ServeLimits::name_bytes),
    other_name("name", "model"),
    ignored_field("verbose"),
};
constexpr Field kPull[] = {
    field_of("model", kString, &ServeLimits::name_bytes),
    other_name("name", "model"),
    flag_field("stream"),
    ignored_field("insecure"),
};
const Schema kShowSchema({kShow});
const Schema kPullSchema({kPull});

// `loaded`: with what is told of those in memory. They stay there.
std::string model_list(const ServeEnv& env, bool loaded) {
  const std::string size = std::to_string(env.card.file_bytes);
  std::string out = "{\"models\":[";
  const std::vector<std::string> names = served_names(env);
  for (const std::string& name : names) {
    if (&name != names.data()) out += ',';
    out += "{\"name\":";
    append_json_string(out, name);
    out += ",\"model\":";
    append_json_string(out, name);
    out += ",\"size\":" + size + ",\"digest\":\"" + (env.card.digest != 0 ? hex64(env.card.digest) : "") + "\",";
    append_ollama_details(out, env.card);
    if (loaded)
      out += R"(,"expires_at":"9999-12-31T23:59:59Z","size_vram":0,"context_length":)" + std::to_string(env.n_ctx);
    else
      out += ",\"modified_at\":\"" + utc_time(env.card.modified_s) + "\"";
    out += '}';
  }
  return out + "]}";
}

ApiResult<Call> tags(const ApiRequest&, const ServeEnv& env) { return Call(Answer{.body = model_list(env, false)}); }
ApiResult<Call> ps(const ApiRequest&, const ServeEnv& env) { return Call(Answer{.body = model_list(env, true)}); }

// Refuses a name that is not served here.
ApiResult<void> check_name(const ApiRequest& request, const ServeEnv& env, const std::string& more) {
  if (!request.args.has("model")) return refuse(missing_field("model"));
  const std::vector<std::string> names = served_names(env);
  if (std::find(names.begin(), names.end(), plain_name(request.args.text("model"))) != names.end()) return {};
  return refuse(HttpError{404, "model '" + shown(request.args.text("model")) + "' not found" + more,
                          "invalid_request_error", "model", "model_not_found"});
}

// A server has the model that it was started with; that one is there.
ApiResult<Call> pull(const ApiRequest& request, const ServeEnv& env) {
  QR_TRY_VOID(check_name(request, env,
                         ": this server answers with '" + env.models[0] + "' alone; 'quire pull' fetches others"));
  const std::string done = R"({"status":"success"})";
  if (!request.args.flag("stream", true)) return Call(Answer{.body = done});
  return Call(Answer{.body = R"({"status":"pulling manifest"})"
                             "\n" +
                             done + "\n",
                     .content_type = "application/x-ndjson"});
}

ApiResult<Call> show(const ApiRequest& request, const ServeEnv& env) {
  QR_TRY_VOID(check_name(request, env, ""));
  return Call(Answer{.body = ollama_show(env.card, env.chat_source, env.n_ctx, env.tools.form != nullptr)});
}

ApiResult<Call> version(const ApiRequest&, const ServeEnv&) {
  return Call(Answer{.body = "{\"version\":\"" QR_VERSION "\"}"});
}

const Api kApi{{
    {.method = "GET",
     .path = "/api/tags",
     .quick = true,
     .parse = &tags,
     .error_text = &ollama_error,
     .summary = "Ollama: the model and its names"},
    {.method = "GET",
     .path = "/api/ps",
     .quick = true,
     .parse = &ps,
     .error_text = &ollama_error,
     .summary = "Ollama: what is loaded"},
    {.method = "POST",
     .path = "/api/show",
     .schema = &kShowSchema,
     .parse = &show,
     .error_text = &ollama_error,
     .summary = "Ollama: facts about the model"},
    {.method = "POST",
     .path = "/api/pull",
     .schema = &kPullSchema,
     .parse = &pull,
     .error_text = &ollama_error,
     .summary = "Ollama: the model is there"},
    {.method = "GET",
     .path = "/api/version",
     .quick = true,
     .open = true,
     .parse = &version,
     .error_text = &ollama_error,
     .summary = "Ollama: the server's version"},
}};
QR_REGISTER(Api, "ollama_models", kApi);

}  // namespace
}  // namespace quire
