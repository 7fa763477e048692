// What travels over HTTP, as plain values: a parsed request, header fields, and the error object that every refusal
// carries (OpenAI's form). No sockets here; any thread may use these on its own.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "http/byte_budget.h"

namespace quire {

struct HttpHeader {
  std::string name;  // of a request: lower case; of a response: sent as written
  std::string value;
};
using HttpHeaders = std::vector<HttpHeader>;

// A complete request that has passed the limits and the grammar (RFC 9112, strict: see docs/http.md).
struct HttpRequest {
  std::string method;   // "GET", "POST", …: any token, upper case as sent
  std::string target;   // as sent, e.g. "/v1/models/a%2Fb?x=1"
  std::string path;     // percent-decoded part before '?'; begins with '/' ("*" for OPTIONS *); no "." or ".." segments
  std::string query;    // raw part after '?', without it
  int version = 11;     // 10 or 11
  HttpHeaders headers;  // in order; names in lower case; values without surrounding blanks
  std::string body;
  ByteLease lease;         // of the server's budget, for all of this
  std::string peer;        // the client's address without port, as text
  int64_t arrived_ns = 0;  // steady clock, when it was complete

  // First field of that name, nullptr when absent. REQUIRES a lower-case name.
  const std::string* header(std::string_view name) const;
  // Decoded value ('+' is a blank) of the first `name=value` in the query; nullopt when absent or badly encoded.
  std::optional<std::string> query_param(std::string_view name) const;
};

// One refusal. `type` and `code` follow OpenAI; `param` names the field at fault, empty becomes null.
struct HttpError {
  int status = 500;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;
  std::string code;
  // Further members of the error object, for programs.
  std::vector<std::pair<std::string, int64_t>> numbers{};
};

// {"error":{"message":…,"type":…,"param":…,"code":…}}, the numbers behind them: always valid JSON, whatever bytes are
// in the message.
std::string error_body(const HttpError&);
// "Not Found" for 404; "Unknown" for a status without a phrase here.
std::string_view status_phrase(int status);
// What the client sent, for showing: cut at 64 bytes, control characters replaced.
std::string shown(std::string_view text);
// Decodes %XX (and '+' to a blank when `plus`); nullopt on a bad escape.
std::optional<std::string> percent_decode(std::string_view text, bool plus);
// ASCII without case; no locale.
bool equal_no_case(std::string_view a, std::string_view b);
// Whether a comma-separated field value such as Connection holds `token`, compared without case.
bool has_list_token(std::string_view value, std::string_view token);

// Of "/path?query" itself, of "http://host/path?query" what stands behind the host, beginning with '/'; empty for
// anything else. A client cannot name by it where its request goes.
std::string origin_form(std::string_view target);

// What a target names, once decoded: see HttpRequest. `asterisk` allows the form "*" (OPTIONS). Fails (Code::invalid)
// on a form that is no origin or absolute form, a fragment, a bad escape, a control character, a "." or ".." segment.
struct TargetParts {
  std::string path, query;
};
Result<TargetParts> split_target(std::string_view target, bool asterisk);

}  // namespace quire
