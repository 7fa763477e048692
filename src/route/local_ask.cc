#include "route/local_ask.h"

#include <algorithm>
#include <string>

#include "http/error_form.h"
#include "route/refusal.h"

namespace quire {
namespace {

bool is_reading(const HttpRequest& request) { return request.method == "GET" || request.method == "HEAD"; }

std::string model_named(const HttpRequest& request, const Asked& asked) {
  if (is_reading(request)) return request.query_param("model").value_or("");
  if (asked.model.empty() && is_ollama(request.path)) return asked.name;
  return asked.model;
}

bool asks_nothing(const Asked& asked) {
  return std::all_of(asked.text.begin(), asked.text.end(),
                     [](std::string_view value) { return value == "\"\"" || value == "[]" || value == "null"; });
}

// The one that is meant where none is named; npos: no local one.
tl::expected<std::optional<size_t>, HttpError> unnamed(const HttpRequest& request,
                                                       const RouteAsk& ask,
                                                       const RouteContext& context) {
  const LocalEngines& engines = *context.engines;
  if (ask.pinned && ask.session)
    if (const auto home = engines.find(context.fleet->local_home(*ask.session))) return home;
  if (context.fleet->has_remote()) return std::nullopt;
  const size_t n = engines.n_models();
  if (n == 0)
    return tl::make_unexpected(
        HttpError{404, "there is no model here at the moment", "not_found_error", "model", "model_not_found"});
  if (n == 1) return engines.any();
  if (ask.pinned)
    return tl::make_unexpected(HttpError{404,
                                         "what this goes on from is not here: its model was unloaded, or it never was",
                                         "not_found_error", "", "not_found"});
  if (is_reading(request)) return engines.any();
  return tl::make_unexpected(
      HttpError{400, "model is required: there are " + std::to_string(n) + " models here, and /v1/models lists them",
                "invalid_request_error", "model", "missing_required_parameter"});
}

}  // namespace

tl::expected<LocalAsk, HttpError> read_local_ask(const HttpRequest& request,
                                                 const Asked& asked,
                                                 const RouteAsk& ask,
                                                 const RouteContext& context) {
  LocalAsk out;
  const std::string named = model_named(request, asked);
  if (named.empty()) {
    QR_TRY(out.model, unnamed(request, ask, context));
  } else {
    out.model = context.engines->find(named);
    if (!out.model && !context.fleet->has_remote()) return tl::make_unexpected(unknown_model(named, "here"));
  }
  if (!out.model || !is_ollama(request.path) || asked.keep_alive.empty() || asked.keep_alive == "null") return out;
  const auto keep_alive = parse_keep_alive_json(asked.keep_alive);
  if (!keep_alive)
    return tl::make_unexpected(HttpError{400, "keep_alive " + keep_alive.error().message, "invalid_request_error",
                                         "keep_alive", "invalid_value"});
  out.keep_alive_ms = *keep_alive;
  const bool generates = request.path == "/api/generate" || request.path == "/api/chat";
  out.unloads = generates && out.keep_alive_ms == 0 && asks_nothing(asked);
  return out;
}

}  // namespace quire
