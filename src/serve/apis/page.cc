// The web page at /, and what its engine view shows. The page asks nobody but this server, and the policy it is sent
// with keeps it so.
#include "serve/page.h"

#include "serve/api.h"

namespace quire {
namespace {

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

constexpr std::string_view kFolder = "/page/";

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return "text/html; charset=utf-8";
}

ApiResult<Call> answer_with(std::string_view name) {
  for (const PageFile& file : page_files()) {
    if (file.name != name) continue;
    Answer answer{.body = std::string(file.text), .content_type = std::string(type_of(name))};
    answer.headers = {{"Content-Security-Policy", std::string(kPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}};
    return Call(std::move(answer));
  }
  return refuse(
      HttpError{404, "the page has no file '" + shown(name) + "'", "invalid_request_error", "", "unknown_path"});
}

ApiResult<Call> index(const ApiRequest&, const ServeEnv&) { return answer_with("index.html"); }
ApiResult<Call> file(const ApiRequest& request, const ServeEnv&) {
  return answer_with(std::string_view(request.http.path).substr(kFolder.size()));
}

// Counters as of the last step, and what is running and held now.
ApiResult<Call> engine(const ApiRequest&, const ServeEnv& env) {
  const EngineStats s = env.engine_stats();
  int64_t computed = 0;
  for (const int64_t n : s.spent.computed) computed += n;
  const std::pair<const char*, int64_t> counts[] = {
      {"running", s.n_running},
      {"waiting", s.n_waiting},
      {"blocks", s.n_blocks},
      {"free_blocks", s.n_free_blocks},
      {"cached_blocks", s.n_cached_blocks},
      {"steps", s.n_steps},
      {"submitted", s.n_submitted},
      {"finished", s.n_finished},
      {"cancelled", s.n_cancelled},
      {"failed", s.n_failed},
      {"preempted", s.n_preempted},
      {"prompt_tokens", s.n_prompt_tokens},
      {"cached_tokens", s.n_cached_tokens},
      {"computed_tokens", computed},
      {"generated_tokens", s.n_generated_tokens},
  };
  std::string out = "{";
  for (const auto& [name, count] : counts) out += "\"" + std::string(name) + "\":" + std::to_string(count) + ",";
  out += "\"step_ms\":";
  append_json_number(out, static_cast<double>(s.step_ns) * 1e-6);
  return Call(Answer{.body = out + "}"});
}

const Api kApi{
    {{.method = "GET",
      .path = "/",
      .quick = true,
      .open = true,
      .parse = &index,
      .summary = "The chat page",
      .part = "ui"},
     {.method = "GET",
      .path = "/page/*",
      .quick = true,
      .open = true,
      .parse = &file,
      .summary = "Of the page",
      .part = "ui"},
     {.method = "GET", .path = "/engine", .quick = true, .parse = &engine, .summary = "What the engine does now"}}};
QR_REGISTER(Api, "page", kApi);

}  // namespace
}  // namespace quire
