#include "serve/api_error.h"

namespace quire {
namespace {

constexpr size_t kShownBytes = 64;

std::string_view error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string quoted(std::string_view field) { return "'" + std::string(field) + "'"; }

}  // namespace

HttpError bad_field(std::string_view field, std::string message, std::string_view code) {
  return {400, quoted(field) + " " + message, "invalid_request_error", std::string(field), std::string(code)};
}

HttpError over_limit(std::string_view field, std::string_view what, int64_t got, int64_t limit, std::string_view note) {
  return bad_field(field,
                   "has " + std::to_string(got) + " " + std::string(what) + ": the limit is " + std::to_string(limit) +
                       std::string(note),
                   "limit_exceeded");
}

HttpError unsupported_field(std::string_view field, std::string_view reason) {
  std::string message = "is not supported yet";
  if (!reason.empty()) message += ": " + std::string(reason);
  return bad_field(field, std::move(message), "unsupported_parameter");
}

HttpError missing_field(std::string_view field) {
  return bad_field(field, "is required", "missing_required_parameter");
}

int http_status(Code code) {
  switch (code) {
    case Code::invalid:
    case Code::unsupported: return 400;
    case Code::not_found: return 404;
    case Code::exhausted: return 429;
    case Code::cancelled: return 503;
    case Code::timeout: return 504;
    case Code::corrupt:
    case Code::io:
    case Code::internal: return 500;
  }
  return 500;
}

HttpError internal_error() { return {500, "internal error", "server_error", "", "internal"}; }
HttpError out_of_memory() { return {503, "out of memory", "server_error", "", "out_of_memory"}; }
HttpError too_late() {
  return {503, "the first token cannot come by the deadline_ms of the request or its key", "server_error",
          "deadline_ms", "too_late"};
}

HttpError to_http_error(const Error& error, std::string_view field) {
  const int status = http_status(error.code);
  return {status, error.message, std::string(error_type(status)), std::string(field),
          std::string(code_name(error.code))};
}

void append_header_text(std::string& out, std::string_view text) {
  for (const char c : text.substr(0, kShownBytes)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_-.:/[]").find(c) != std::string_view::npos;
    out += plain ? c : '?';
  }
  if (text.size() > kShownBytes) out += "...";
}

std::string at_index(std::string_view path, int64_t index) {
  return std::string(path) + "[" + std::to_string(index) + "]";
}

std::string at_key(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : std::string(path) + "." + std::string(key);
}

}  // namespace quire
