#include "serve/trace.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread.h"
#include "http/client.h"
#include "serve/reply_writer.h"

namespace quire {
namespace {

constexpr int kBatch = 256;        // requests
constexpr size_t kSequences = 32;  // of a request that have spans of their own
constexpr int64_t kWarnEveryNs = 60'000'000'000;
constexpr int kServer = 2, kInternal = 1;  // OTLP's SpanKind

int64_t unix_at_zero() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - SystemClock().now_ns();
}

bool is_id(std::string_view text) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return std::all_of(text.begin(), text.end(), hex);
}
bool is_zero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

Json attribute(const char* key, std::string_view value) {
  return Json::Object{{"key", key}, {"value", Json::Object{{"stringValue", value}}}};
}
Json attribute(const char* key, int64_t value) {  // 64-bit integers are strings in protobuf's JSON
  return Json::Object{{"key", key}, {"value", Json::Object{{"intValue", std::to_string(value)}}}};
}

struct Span {
  std::string parent, name;
  int64_t start_ns, end_ns;
  Json::Array attributes;
  std::string failure = {};  // empty where it went well
  int kind = kInternal;
};

// Appends spans of one trace, commas between them.
class SpanWriter {
 public:
  SpanWriter(std::string trace_id, SeedSource& ids, int64_t unix_ns)
      : trace_id_(std::move(trace_id)), ids_(ids), unix_ns_(unix_ns) {}

  // Gives the span's identifier.
  std::string add(Span s) {
    const std::string id = hex64(ids_.next() | 1);  // never all zero
    Json span = Json::Object{{"traceId", trace_id_}, {"spanId", id}};
    if (!s.parent.empty()) span.set("parentSpanId", s.parent);
    span.set("name", s.name);
    span.set("kind", s.kind);
    span.set("startTimeUnixNano", std::to_string(unix_ns_ + s.start_ns));
    span.set("endTimeUnixNano", std::to_string(unix_ns_ + std::max(s.start_ns, s.end_ns)));
    span.set("attributes", std::move(s.attributes));
    if (!s.failure.empty()) span.set("status", Json::Object{{"code", 2}, {"message", s.failure}});
    if (!out.empty()) out += ',';
    out += span.dump();
    return id;
  }
  std::string out;

 private:
  const std::string trace_id_;
  SeedSource& ids_;
  const int64_t unix_ns_;
};

Json::Array request_attributes(const RequestTrace& t) {
  const RequestRecord& r = t.request;
  Json::Array out{attribute("http.request.method", t.method),
                  attribute("http.route", r.endpoint),
                  attribute("http.response.status_code", r.status),
                  attribute("client.address", r.peer),
                  attribute("quire.request_id", r.id),
                  attribute("quire.end", r.end)};
  if (!r.key.empty()) out.push_back(attribute("quire.key", r.key));
  if (t.submitted_ns == 0) return out;
  out.push_back(attribute("gen_ai.request.model", t.model));
  out.push_back(attribute("gen_ai.usage.input_tokens", r.n_prompt));
  out.push_back(attribute("gen_ai.usage.output_tokens", r.n_generated));
  out.push_back(attribute("quire.cached_tokens", r.n_cached));
  out.push_back(attribute("quire.choices", r.n_choices));
  return out;
}

std::string failure_of(const RequestRecord& r) {
  if (r.status >= 500) return "status " + std::to_string(r.status);
  return r.end == "finished" ? "" : std::string(r.end);
}

// How far a sequence came: 1 queue, 2 prefill, 3 decode.
int n_phases(const SequenceTrace& s) { return s.first_token_ns > 0 ? 3 : s.queued_ns < s.total_ns ? 2 : 1; }

void add_sequence(SpanWriter& spans, const std::string& root, int64_t from_ns, const SequenceTrace& s, int64_t choice) {
  const int n = n_phases(s);
  const int64_t end = from_ns + s.total_ns;
  const int64_t queued = n > 1 ? from_ns + s.queued_ns : end;
  const int64_t first = n > 2 ? std::max(queued, from_ns + s.first_token_ns) : end;
  const auto failure = [&](int phase) { return s.cancelled && phase == n ? "cancelled" : ""; };
  spans.add({root, "queue", from_ns, queued, {attribute("quire.choice", choice)}, failure(1)});
  if (n < 2) return;
  spans.add({root,
             "prefill",
             queued,
             first,
             {attribute("quire.choice", choice), attribute("quire.prompt_tokens", s.n_prompt),
              attribute("quire.cached_tokens", s.n_cached)},
             failure(2)});
  if (n < 3) return;
  spans.add({root,
             "decode",
             first,
             end,
             {attribute("quire.choice", choice), attribute("quire.generated_tokens", s.n_generated)},
             failure(3)});
}

uint64_t n_spans(const RequestTrace& t) {
  uint64_t n = 1 + (t.submitted_ns != 0 ? 1 : 0);
  for (size_t i = 0; i < std::min(t.sequences.size(), kSequences); ++i)
    n += static_cast<uint64_t>(n_phases(t.sequences[i]));
  return n;
}

std::string resource_json() {
  const Json resource = Json::Object{
      {"attributes", Json::Array{attribute("service.name", "quire"), attribute("service.version", QR_VERSION)}}};
  return resource.dump();
}

}  // namespace

std::optional<TraceParent> parse_traceparent(std::string_view h) {
  constexpr size_t kLength = 55;  // 00-TRACE-SPAN-FLAGS
  if (h.size() < kLength || h[2] != '-' || h[35] != '-' || h[52] != '-') return std::nullopt;
  const std::string_view version = h.substr(0, 2), trace = h.substr(3, 32), span = h.substr(36, 16),
                         flags = h.substr(53, 2);
  if (!is_id(version) || !is_id(trace) || !is_id(span) || !is_id(flags)) return std::nullopt;
  if (version == "ff" || is_zero(trace) || is_zero(span)) return std::nullopt;
  // Later versions may go on behind a dash.
  if (h.size() > kLength && (version == "00" || h[kLength] != '-')) return std::nullopt;
  const char low = flags[1];
  const int bits = low <= '9' ? low - '0' : low - 'a' + 10;
  return TraceParent{std::string(trace), std::string(span), (bits & 1) != 0};
}

std::string span_json(const RequestTrace& t, SeedSource& ids, int64_t unix_ns) {
  const std::string trace_id = t.parent ? t.parent->trace_id : hex64(ids.next() | 1) + hex64(ids.next());
  SpanWriter spans(trace_id, ids, unix_ns);
  const std::string name = std::string(t.method) + " " + std::string(t.request.endpoint);
  const std::string root = spans.add({t.parent ? t.parent->span_id : "", name, t.arrived_ns, t.ended_ns,
                                      request_attributes(t), failure_of(t.request), kServer});
  if (t.submitted_ns != 0) spans.add({root, "prepare", t.arrived_ns, t.submitted_ns, {}});
  for (size_t i = 0; i < std::min(t.sequences.size(), kSequences); ++i)
    add_sequence(spans, root, t.submitted_ns, t.sequences[i], static_cast<int64_t>(i));
  return std::move(spans.out);
}

Tracer::Tracer(TraceOptions options, Metrics& m)
    : options_(std::move(options)),
      unix_ns_(unix_at_zero()),
      sent_(m.counter("quire_trace_spans_sent_total", "Spans that the collector took.")),
      full_(m.counter(
          "quire_trace_spans_dropped_total", "Spans that were not sent, by why.", {{"reason", "queue_full"}})),
      failed_(
          m.counter("quire_trace_spans_dropped_total", "Spans that were not sent, by why.", {{"reason", "not_taken"}})),
      queue_(options_.queue),
      client_(std::make_unique<HttpClient>(ClientOptions{
          .host = options_.host, .port = options_.port, .timeout_ms = options_.timeout_ms, .body_bytes = 1 << 20})) {
  thread_ = std::thread([this] { run(); });
}

Tracer::~Tracer() {
  closing_ = true;
  queue_.close();
  thread_.join();
}

void Tracer::submit(RequestTrace&& trace) {
  if (trace.parent && !trace.parent->sampled) return;
  const uint64_t n = n_spans(trace);
  if (trace.sequences.size() > kSequences) {  // what waits in the queue is bounded in bytes too
    trace.sequences.resize(kSequences);
    trace.sequences.shrink_to_fit();
  }
  if (!queue_.try_push(std::move(trace))) full_.add(n);
}

// What there is no memory for is dropped.
void Tracer::run() {
  set_thread_name("quire-trace");
  while (auto first = queue_.pop()) {
    uint64_t n = 0;
    try {
      const std::string spans = batch(*first, n);
      send(spans, n);
    } catch (const std::bad_alloc&) {
      failed_.add(n);
    }
  }
}

std::string Tracer::batch(const RequestTrace& first, uint64_t& n) {
  n = n_spans(first);
  std::string spans = span_json(first, ids_, unix_ns_);
  for (int i = 1; i < kBatch; ++i) {
    const auto more = queue_.try_pop();
    if (!more) break;
    n += n_spans(*more);
    spans += ',';
    spans += span_json(*more, ids_, unix_ns_);
  }
  return spans;
}

void Tracer::send(const std::string& spans, uint64_t n) {
  if (gave_up_) return failed_.add(n);
  static const std::string kHead = "{\"resourceSpans\":[{\"resource\":" + resource_json() +
                                   ",\"scopeSpans\":[{\"scope\":{\"name\":\"quire\"},\"spans\":[";
  const auto answer =
      client_->request({"POST", options_.path, {{"Content-Type", "application/json"}}, kHead + spans + "]}]}]}"});
  if (answer && answer->status >= 200 && answer->status < 300) return sent_.add(n);
  failed_.add(n);
  gave_up_ = closing_;
  const int64_t now = SystemClock().now_ns();
  if (warned_ns_ != 0 && now - warned_ns_ < kWarnEveryNs) return;
  warned_ns_ = now;
  log_warn("traces are not taken by " + options_.host + ":" + std::to_string(options_.port) + options_.path + ": " +
           (answer ? "status " + std::to_string(answer->status) : answer.error().message));
}

}  // namespace quire
