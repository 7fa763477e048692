// Traces: the header's form, the tree that a request leaves, and a collector that takes, refuses or is not there.
#include "serve/trace.h"

#include <condition_variable>
#include <mutex>

#include "http/testing.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kSpan = "00f067aa0ba902b7";

std::string parent_header(const char* flags = "01") { return std::string("00-") + kTrace + "-" + kSpan + "-" + flags; }

// Keeps the spans of every batch; answers with `status`.
class Collector {
 public:
  explicit Collector(int status = 200) : status_(status) {
    auto started = Server::start(ServerOptions{}, handler_);
    EXPECT_TRUE(started);
    server_ = std::move(*started);
  }
  ~Collector() { server_->stop(0); }
  TraceOptions options() const { return {.host = "127.0.0.1", .port = server_->port()}; }

  Json::Array wait_for(size_t n) {
    std::unique_lock lock(mu_);
    came_.wait_for(lock, std::chrono::milliseconds(kPatienceMs), [&] { return spans_.size() >= n; });
    return spans_;
  }

 private:
  void take(const HttpRequest& request) {
    EXPECT_EQ(request.method + " " + request.path, "POST /v1/traces");
    const Json body = parse_json(request.body);
    std::lock_guard lock(mu_);
    for (const Json& span : list_of(json_at(body, "resourceSpans", 0, "scopeSpans", 0, "spans")))
      spans_.push_back(span);
    came_.notify_all();
  }

  const int status_;
  std::mutex mu_;
  std::condition_variable came_;
  Json::Array spans_;
  FunctionHandler handler_{[this](HttpRequest&& request, ReplyPtr reply) {
    take(request);
    reply->send(status_, {}, "{}");
  }};
  std::unique_ptr<Server> server_;
};

Json named(const Json::Array& spans, std::string_view name) {
  for (const Json& span : spans)
    if (text_at(json_at(span, "name")) == name) return span;
  return {};
}

Json attribute_of(const Json& span, std::string_view key) {
  for (const Json& attribute : list_of(json_at(span, "attributes")))
    if (text_at(json_at(attribute, "key")) == key) {
      const Json text = json_at(attribute, "value", "stringValue");
      return text.is_null() ? json_at(attribute, "value", "intValue") : text;
    }
  return {};
}

int64_t time_at(const Json& span, const char* key) { return std::stoll(text_at(json_at(span, key))); }

TEST(TraceParent, OfThisVersionAndOfLaterOnes) {
  const auto parent = parse_traceparent(parent_header());
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->trace_id, kTrace);
  EXPECT_EQ(parent->span_id, kSpan);
  EXPECT_TRUE(parent->sampled);
  EXPECT_FALSE(parse_traceparent(parent_header("00"))->sampled);
  EXPECT_TRUE(parse_traceparent(parent_header("0b"))->sampled);
  EXPECT_TRUE(parse_traceparent("cc" + parent_header().substr(2) + "-more"));
}

TEST(TraceParent, AnotherFormBeginsATraceAnew) {
  const std::string good = parent_header();
  EXPECT_FALSE(parse_traceparent(""));
  EXPECT_FALSE(parse_traceparent(good.substr(1)));
  EXPECT_FALSE(parse_traceparent(good + "-more"));
  EXPECT_FALSE(parse_traceparent("cc" + good.substr(2) + "more"));
  EXPECT_FALSE(parse_traceparent("ff" + good.substr(2)));
  EXPECT_FALSE(parse_traceparent("00-" + std::string(32, '0') + good.substr(35)));
  EXPECT_FALSE(parse_traceparent(good.substr(0, 36) + std::string(16, '0') + "-01"));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = 'G';
    EXPECT_FALSE(parse_traceparent(bad)) << bad;
  }
}

TEST(Trace, ARequestIsOneTree) {
  Collector collector;
  TestServer s;
  s.options.traces = collector.options();
  s.start();
  const auto answer =
      s.post("/v1/completions", R"({"prompt":"a b","max_tokens":4})", {{"traceparent", parent_header()}});
  ASSERT_EQ(answer.status, 200);
  const Json::Array spans = collector.wait_for(5);
  ASSERT_EQ(spans.size(), 5);
  const Json root = named(spans, "POST /v1/completions");
  EXPECT_EQ(text_at(json_at(root, "parentSpanId")), kSpan);
  EXPECT_EQ(int_at(json_at(root, "kind")), 2);
  EXPECT_EQ(text_at(attribute_of(root, "http.response.status_code")), "200");
  EXPECT_EQ(text_at(attribute_of(root, "gen_ai.request.model")), "tiny");
  const Json usage = json_at(parse_json(answer.body), "usage");
  EXPECT_EQ(text_at(attribute_of(root, "gen_ai.usage.input_tokens")), json_at(usage, "prompt_tokens").dump());
  EXPECT_EQ(text_at(attribute_of(root, "quire.request_id")), *answer.header("x-request-id"));
  for (const char* name : {"prepare", "queue", "prefill", "decode"}) {
    const Json span = named(spans, name);
    EXPECT_EQ(text_at(json_at(span, "traceId")), kTrace) << name;
    EXPECT_EQ(json_at(span, "parentSpanId"), json_at(root, "spanId")) << name;
    EXPECT_LE(time_at(root, "startTimeUnixNano"), time_at(span, "startTimeUnixNano")) << name;
    EXPECT_LE(time_at(span, "startTimeUnixNano"), time_at(span, "endTimeUnixNano")) << name;
  }
  EXPECT_EQ(text_at(attribute_of(named(spans, "prefill"), "quire.prompt_tokens")),
            json_at(usage, "prompt_tokens").dump());
  EXPECT_EQ(text_at(attribute_of(named(spans, "decode"), "quire.generated_tokens")),
            json_at(usage, "completion_tokens").dump());
  EXPECT_TRUE(eventually([&] { return s.metric("quire_trace_spans_sent_total") == "5"; }));
}

TEST(Trace, ARefusalIsASpanAloneAndWhatIsNotSampledIsNone) {
  Collector collector;
  TestServer s;
  s.options.traces = collector.options();
  s.start();
  EXPECT_EQ(s.post("/v1/completions", "{}", {{"traceparent", parent_header("00")}}).status, 400);
  EXPECT_EQ(s.post("/v1/completions", "{}", {{"traceparent", "nonsense"}}).status, 400);
  EXPECT_EQ(s.get("/health").status, 200);  // no request of anybody's
  s.serving->stop(0);
  const Json::Array spans = collector.wait_for(1);
  ASSERT_EQ(spans.size(), 1);
  EXPECT_EQ(text_at(attribute_of(spans[0], "http.response.status_code")), "400");
  EXPECT_TRUE(json_at(spans[0], "parentSpanId").is_null());
  EXPECT_NE(text_at(json_at(spans[0], "traceId")), kTrace);
}

// Starts the server, whose answers do not end in a test's time, and reads the beginning of one.
std::unique_ptr<RawClient> begin_long_stream(TestServer& s) {
  s.engine.script = [](const Request&) { return std::vector<Token>(1'000'000, kFirstByte + 'x'); };
  s.engine.options_.n_ctx = 2'000'000;
  s.engine.step_us = 200;
  s.start();
  auto client = std::make_unique<RawClient>(s.serving->port());
  const std::string body = R"({"prompt":"a b","max_tokens":1000000,"stream":true})";
  client->send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_NE(client->read_until("data: {").find("200 OK"), std::string::npos);
  return client;
}

TEST(Trace, AClientThatLeavesLeavesItsSpans) {
  Collector collector;
  TestServer s;
  s.options.traces = collector.options();
  const auto c = begin_long_stream(s);
  c->close();
  const Json::Array spans = collector.wait_for(5);
  ASSERT_EQ(spans.size(), 5);
  const Json root = named(spans, "POST /v1/completions");
  EXPECT_EQ(text_at(attribute_of(root, "quire.end")), "client_gone");
  EXPECT_EQ(text_at(json_at(root, "status", "message")), "client_gone");
  EXPECT_TRUE(json_at(named(spans, "prefill"), "status").is_null()) << "that one went well";
  const Json decode = named(spans, "decode");
  EXPECT_EQ(json_at(decode, "parentSpanId"), json_at(root, "spanId"));
  EXPECT_EQ(text_at(json_at(decode, "status", "message")), "cancelled");
  EXPECT_GT(std::stoll(text_at(attribute_of(decode, "quire.generated_tokens"))), 0);
}

TEST(Trace, AStreamThatEndsWithAnErrorSaysWhy) {
  Collector collector;
  TestServer s;
  s.options.traces = collector.options();
  const auto c = begin_long_stream(s);
  s.serving->stop(0);
  EXPECT_NE(c->read_until("shutting_down").find("event: error"), std::string::npos);
  const Json root = named(collector.wait_for(1), "POST /v1/completions");
  EXPECT_EQ(text_at(attribute_of(root, "http.response.status_code")), "200");
  EXPECT_EQ(text_at(attribute_of(root, "quire.end")), "shutdown");
}

TEST(Trace, OfAClientThatLeavesBeforeItsFirstTokenThereIsNoDecode) {
  Collector collector;
  TestServer s;
  s.options.traces = collector.options();
  s.engine.pause(true);
  s.start();
  RawClient c(s.serving->port());
  c.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
      R"({"prompt":"x"})");
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 1; }));
  c.close();
  const Json::Array spans = collector.wait_for(4);
  ASSERT_EQ(spans.size(), 4) << "the request, prepare, queue, prefill";
  EXPECT_EQ(text_at(json_at(named(spans, "prefill"), "status", "message")), "cancelled");
  EXPECT_TRUE(named(spans, "decode").is_null());
}

TEST(Trace, ASequenceHasThePhasesThatItReached) {
  RequestTrace t;
  t.method = "POST";
  t.request.endpoint = "/x";
  t.request.end = "client_gone";
  t.submitted_ns = 1;
  t.sequences.push_back({.queued_ns = 9, .total_ns = 9, .cancelled = true});  // never began
  SeedSource ids;
  const Json::Array spans = list_of(parse_json("[" + span_json(t, ids, 0) + "]"));
  ASSERT_EQ(spans.size(), 3);
  const Json queue = named(spans, "queue");
  EXPECT_EQ(text_at(json_at(queue, "status", "message")), "cancelled");
  EXPECT_EQ(time_at(queue, "endTimeUnixNano"), 10);
}

TEST(Trace, SpansThatTheCollectorRefusesAreCounted) {
  Collector collector(503);
  TestServer s;
  s.options.traces = collector.options();
  s.start();
  EXPECT_EQ(s.post("/v1/completions", R"({"prompt":"a","max_tokens":1})").status, 200);
  EXPECT_TRUE(eventually([&] { return s.metric(R"(quire_trace_spans_dropped_total{reason="not_taken"})") == "5"; }));
  EXPECT_EQ(s.metric("quire_trace_spans_sent_total"), "0");
}

TEST(Trace, AFullQueueDropsAndCounts) {
  Metrics metrics;
  const Counter& full = metrics.counter("quire_trace_spans_dropped_total", "", {{"reason", "queue_full"}});
  Tracer tracer({.host = "127.0.0.1", .port = 1, .queue = 0}, metrics);
  RequestTrace one;
  one.submitted_ns = 1;
  one.sequences.resize(2, {.queued_ns = 1, .first_token_ns = 2, .total_ns = 3});
  tracer.submit(std::move(one));
  EXPECT_EQ(full.value(), 8);  // the request, prepare, three for each sequence
}

TEST(Trace, OfManyChoicesTheFirstHaveSpans) {
  RequestTrace t;
  t.method = "POST";
  t.request.endpoint = "/x";
  t.submitted_ns = 1;
  t.sequences.resize(100, {.queued_ns = 1, .first_token_ns = 2, .total_ns = 3});
  SeedSource ids;
  const Json spans = parse_json("[" + span_json(t, ids, 0) + "]");
  EXPECT_EQ(list_of(spans).size(), 2 + 3 * 32);
}

}  // namespace
}  // namespace quire
