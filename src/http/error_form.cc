#include "http/error_form.h"

#include "base/json.h"

namespace quire {

std::string anthropic_error(const HttpError& error) {
  std::string_view type = "invalid_request_error";
  if (error.status == 401) type = "authentication_error";
  if (error.status == 403) type = "permission_error";
  if (error.status == 404) type = "not_found_error";
  if (error.status == 413) type = "request_too_large";
  if (error.status == 429) type = "rate_limit_error";
  if (error.status >= 500) type = error.status == 503 ? "overloaded_error" : "api_error";
  std::string out = "{\"type\":\"error\",\"error\":{\"type\":\"" + std::string(type) + "\",\"message\":";
  append_json_string(out, error.message);
  return out + "}}";
}

std::string ollama_error(const HttpError& error) {
  std::string out = "{\"error\":";
  append_json_string(out, error.message);
  return out + "}";
}

bool is_ollama(std::string_view path) { return path.starts_with("/api/"); }

ErrorForm error_form(std::string_view path) {
  constexpr std::string_view kMessages = "/v1/messages";
  if (is_ollama(path)) return &ollama_error;
  if (path == kMessages || (path.starts_with(kMessages) && path[kMessages.size()] == '/')) return &anthropic_error;
  return &error_body;
}

}  // namespace quire
