// Traces for OpenTelemetry: one tree of spans for each request, sent as OTLP over HTTP in its JSON encoding. The one
// idea: a request that is over leaves its record in a bounded queue, and one thread of its own turns what has gathered
// into a batch and sends it. Where the queue is full or the collector does not take a batch, spans are counted and
// dropped; nobody waits. Formats: W3C Trace Context (level 1), OTLP 1.x.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "base/queue.h"
#include "serve/request_log.h"
#include "serve/seeds.h"

namespace quire {

// Where a request stands in its caller's trace; identifiers as lower-case hexadecimal.
struct TraceParent {
  std::string trace_id, span_id;  // 32 and 16 digits
  bool sampled = true;
};
// The header traceparent. Nothing where its form is another or an identifier is all zero: a trace begins anew then.
std::optional<TraceParent> parse_traceparent(std::string_view header);

// A sequence's times since it was submitted.
struct SequenceTrace {
  int64_t queued_ns = 0, first_token_ns = 0, total_ns = 0;  // first_token_ns 0: there was none
  int64_t n_prompt = 0, n_cached = 0, n_generated = 0;      // tokens
  bool cancelled = false;                                   // in the last of its phases
};

// A request that is over. Times are the steady clock's.
struct RequestTrace {
  std::optional<TraceParent> parent;
  RequestRecord request;
  std::string_view method;
  std::string model;
  int64_t arrived_ns = 0, submitted_ns = 0, ended_ns = 0;  // submitted_ns 0: it was refused before
  std::vector<SequenceTrace> sequences;
};

// The spans of a request as a JSON list without its brackets: the request, below it prepare and, for each sequence,
// queue, prefill and decode, as far as it came. `unix_ns` is the time of day at 0 of the steady clock.
std::string span_json(const RequestTrace& trace, SeedSource& ids, int64_t unix_ns);

struct TraceOptions {
  std::string host;  // of the collector; empty: no traces
  int port = 4318;
  std::string path = "/v1/traces";
  int timeout_ms = 5'000;
  size_t queue = 4096;  // requests
};

class Tracer {
 public:
  // `metrics` outlives it.
  Tracer(TraceOptions options, Metrics& metrics);
  // Sends what is left; at the first batch that is not taken it gives up.
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // Any thread; never waits. A request whose caller does not sample it leaves nothing.
  void submit(RequestTrace&& trace);

 private:
  void run();
  std::string batch(const RequestTrace& first, uint64_t& n);  // spans of what has gathered; n: how many
  void send(const std::string& spans, uint64_t n);

  const TraceOptions options_;
  SeedSource ids_;
  const int64_t unix_ns_;
  Counter &sent_, &full_, &failed_;
  Queue<RequestTrace> queue_;
  std::atomic<bool> closing_{false};
  bool gave_up_ = false;                      // the thread's
  int64_t warned_ns_ = 0;                     // likewise
  std::unique_ptr<class HttpClient> client_;  // likewise
  std::thread thread_;
};

}  // namespace quire
