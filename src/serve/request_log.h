// One line for each request that was given to the engine or refused before: who, what, how it ended, and its times.
// Prompts, answers and keys are never in it; names come from the operator, numbers from us, and of a request's words
// those that the header x-quire-warning tells. Any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

struct RequestRecord {
  std::string id;  // as sent in x-request-id
  std::string_view endpoint;
  std::string key;  // its name; empty: nobody's
  std::string peer;
  int status = 0;        // 499: the client left before the answer's head
  std::string_view end;  // how the reply ended: finished, failed, client_gone, stalled, aborted, shutdown
  std::string warning;   // of the header, empty: none
  bool stream = false;
  int64_t n_choices = 0, n_prompt = 0, n_cached = 0, n_generated = 0;  // tokens
  int64_t first_token_ns = 0, queue_ns = 0, total_ns = 0;              // since the head; 0: there was none
};

enum class RequestLog : uint8_t { off, text, json };
Result<RequestLog> parse_request_log(std::string_view name);

// "request id=… endpoint=… status=200 …": what is 0 or empty is left out.
std::string request_text(const RequestRecord& record);
// One JSON object with every field and the time of day (seconds since 1970).
std::string request_json(const RequestRecord& record, double time_s);
// Writes the line to stderr, as the log's or, for json, alone.
void log_request(RequestLog form, const RequestRecord& record);

}  // namespace quire
