// A server that speaks OpenAI's API, seen from outside: what the load generator and `quire chat URL` send, and what
// they hear of it. Times are the steady clock's. One thread at a time for each client; the functions may run on any
// thread.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "http/client.h"

namespace quire {

struct Remote {
  std::string host;
  int port = 80;
  std::string base;  // what stands before /v1, without a slash at its end
  std::string api_key;
};

// "http://host:port/base"; the scheme, the port (80) and an ending /v1 may be left out. Code::invalid names what is
// wrong, https among it: there is no TLS here.
Result<Remote> parse_remote(const std::string& url);
HttpClient connect_to(const Remote& remote, int timeout_ms);

struct Ask {
  bool chat = true;  // /v1/chat/completions, otherwise /v1/completions
  Json body;         // "stream" and "stream_options" are added
  // Each piece of text as it comes; false: leave, which closes the connection. May be empty.
  std::function<bool(std::string_view text)> on_text = {};
};

// How an answer ended: `failure` is empty when it was complete, otherwise a word to count by: http_429 (any status),
// timeout, connect, cut (the connection ended before the answer), stream (an error event), protocol (no JSON, no HTTP).
struct RemoteAnswer {
  std::string failure, message;
  bool left = false;  // on_text said so; counts as no failure
  std::string text, finish;
  int64_t sent_ns = 0, done_ns = 0;                        // request written; last byte or failure
  std::vector<int64_t> piece_ns;                           // arrival of each event that held text
  int64_t n_prompt = -1, n_cached = -1, n_generated = -1;  // as the server counts; -1: it does not say
};

// Sends and hears to the end.
RemoteAnswer ask(HttpClient& client, const Remote& remote, const Ask& ask);
// Posts `body` to `path` ("/v1/…"); the JSON of an answer with status 200. Other statuses are Code::io, with the
// server's words.
Result<Json> post_json(HttpClient& client, const Remote& remote, std::string_view path, const Json& body);
// The first name of /v1/models.
Result<std::string> first_model(HttpClient& client, const Remote& remote);

}  // namespace quire
