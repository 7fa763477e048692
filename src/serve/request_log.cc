#include "serve/request_log.h"

#include <chrono>
#include <cmath>

#include "base/json.h"
#include "base/log.h"

namespace quire {
namespace {

double ms(int64_t ns) { return std::round(static_cast<double>(ns) * 1e-4) / 100.0; }

void add(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out.append(" ").append(name).append("=").append(value);
}
void add_count(std::string& out, std::string_view name, int64_t value) {
  if (value != 0) add(out, name, std::to_string(value));
}
void add_ms(std::string& out, std::string_view name, int64_t ns) {
  if (ns == 0) return;
  std::string text;
  append_json_number(text, ms(ns));
  add(out, name, text);
}

}  // namespace

Result<RequestLog> parse_request_log(std::string_view name) {
  if (name == "off") return RequestLog::off;
  if (name == "text") return RequestLog::text;
  if (name == "json") return RequestLog::json;
  return fail(Code::invalid, "must be off, text or json, got \"" + std::string(name) + "\"");
}

std::string request_text(const RequestRecord& r) {
  std::string out = "request";
  add(out, "id", r.id);
  add(out, "endpoint", r.endpoint);
  add(out, "status", std::to_string(r.status));
  add(out, "end", r.end);
  add(out, "key", r.key);
  add(out, "peer", r.peer);
  if (r.stream) out += " stream";
  add_count(out, "choices", r.n_choices > 1 ? r.n_choices : 0);
  add_count(out, "prompt", r.n_prompt);
  add_count(out, "cached", r.n_cached);
  add_count(out, "generated", r.n_generated);
  add_ms(out, "queue_ms", r.queue_ns);
  add_ms(out, "first_token_ms", r.first_token_ns);
  add_ms(out, "total_ms", r.total_ns);
  if (!r.warning.empty()) add(out, "warning", "\"" + r.warning + "\"");
  return out;
}

std::string request_json(const RequestRecord& r, double time_s) {
  Json out;
  out.set("event", "request");
  out.set("time", time_s);
  out.set("id", r.id);
  out.set("endpoint", r.endpoint);
  out.set("status", r.status);
  out.set("end", r.end);
  out.set("key", r.key.empty() ? Json() : Json(r.key));
  out.set("peer", r.peer);
  out.set("stream", r.stream);
  out.set("choices", r.n_choices);
  out.set("prompt_tokens", r.n_prompt);
  out.set("cached_tokens", r.n_cached);
  out.set("generated_tokens", r.n_generated);
  out.set("queue_ms", ms(r.queue_ns));
  out.set("first_token_ms", r.first_token_ns > 0 ? Json(ms(r.first_token_ns)) : Json());
  out.set("total_ms", ms(r.total_ns));
  if (!r.warning.empty()) out.set("warning", r.warning);
  return out.dump();
}

void log_request(RequestLog form, const RequestRecord& record) {
  if (form == RequestLog::off) return;
  if (form == RequestLog::text) return log_info(request_text(record));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  log_line(request_json(record, std::chrono::duration<double>(now).count()));
}

}  // namespace quire
