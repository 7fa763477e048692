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

// "1.2B", "815.0M", "260.0K": how its clients expect a size.
std::string short_count(int64_t n) {
  constexpr std::pair<int64_t, char> kUnits[] = {{1'000'000'000, 'B'}, {1'000'000, 'M'}, {1'000, 'K'}};
  for (const auto& [size, letter] : kUnits) {
    if (n < size) continue;
    const int64_t tenths = n / (size / 10);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + letter;
  }
  return std::to_string(n);
}

void append_details(std::string& out, const ModelCard& card) {
  out += "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":";
  append_json_string(out, card.architecture);
  out += ",\"families\":[";
  append_json_string(out, card.architecture);
  out += "],\"parameter_size\":\"" + short_count(card.n_parameters) + "\",\"quantization_level\":";
  std::string type = card.quantization;
  for (char& c : type)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  append_json_string(out, type);
  out += '}';
}

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
    append_details(out, env.card);
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
  std::string out = "{\"modelfile\":\"\",\"parameters\":\"\",\"template\":";
  append_json_string(out, env.chat_source);
  out += ',';
  append_details(out, env.card);
  out += ",\"model_info\":{\"general.architecture\":";
  append_json_string(out, env.card.architecture);
  out += ",\"general.parameter_count\":" + std::to_string(env.card.n_parameters) + ',';
  append_json_string(out, env.card.architecture + ".context_length");
  out += ':' + std::to_string(env.n_ctx) + "},\"capabilities\":[\"completion\"" +
         std::string(env.tools.form != nullptr ? ",\"tools\"" : "") + "],\"modified_at\":\"" +
         utc_time(env.card.modified_s) + "\"}";
  return Call(Answer{.body = std::move(out)});
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
