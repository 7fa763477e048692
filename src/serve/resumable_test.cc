// Streams taken up again after a cut, over real sockets: what both connections heard, joined, is the whole.
#include "http/sse.h"
#include "serve/resumable_stream.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kBody = R"({"prompt":"x","max_tokens":20,"seed":3,"stream":true})";

struct Heard {
  std::vector<SseEvent> events;
  std::string stream, secret;  // its id, and what proves that it is ours
  std::string resumable;       // the header of that name
};

std::string text_of(const std::vector<SseEvent>& events) {
  TestServer::Events all;
  all.list = events;
  return joined_text(all);
}

// Reads a resumable stream until it heard n letters of text, then cuts the connection: before its end, however many
// letters an event brings, for the end comes in an event of its own.
Heard hear(const TestServer& s, size_t n, HttpHeaders headers = {}) {
  Heard out;
  auto c = s.client();
  headers.insert(headers.end(), {{"Content-Type", "application/json"}, {"x-quire-resumable", "1"}});
  const auto r = c.events({"POST", "/v1/completions", std::move(headers), kBody}, [&](SseEvent&& e, int64_t) {
    out.events.push_back(std::move(e));
    return text_of(out.events).size() < n;
  });
  EXPECT_TRUE(r);
  const auto field = [&](const char* name) { return r && r->header(name) != nullptr ? *r->header(name) : ""; };
  out.stream = field("x-quire-stream");
  out.secret = field("x-quire-stream-secret");
  out.resumable = field("x-quire-resumable");
  return out;
}

Heard go_on(const TestServer& s, const std::string& stream, const std::string& after, HttpHeaders headers) {
  Heard out;
  headers.push_back({"Last-Event-ID", after});
  auto c = s.client();
  const auto r = c.events({"GET", "/v1/streams/" + stream, std::move(headers), ""}, [&](SseEvent&& e, int64_t) {
    out.events.push_back(std::move(e));
    return true;
  });
  EXPECT_TRUE(r);
  if (r) out.stream = std::to_string(r->status) + r->body;
  return out;
}

Heard go_on(const TestServer& s, const Heard& first, const std::string& after) {
  return go_on(s, first.stream, after, {{"x-quire-stream-secret", first.secret}});
}

TEST(Resumable, GoesOnWhereTheClientWasCutOff) {
  TestServer s;
  s.engine.step_us = 200;
  s.start();
  const std::string whole = joined_text(s.stream("/v1/completions", kBody));
  ASSERT_EQ(whole.size(), 20u);
  for (const size_t n : {size_t{1}, size_t{5}, size_t{12}}) {
    Heard first = hear(s, n);
    ASSERT_GE(text_of(first.events).size(), n);
    ASSERT_FALSE(first.stream.empty());
    const size_t n_heard = first.events.size();
    EXPECT_EQ(first.events.back().id, std::to_string(n_heard));
    const Heard second = go_on(s, first, first.events.back().id);
    ASSERT_FALSE(second.events.empty()) << second.stream;
    EXPECT_EQ(second.events.front().id, std::to_string(n_heard + 1));
    EXPECT_EQ(second.events.back().data, "[DONE]");
    first.events.insert(first.events.end(), second.events.begin(), second.events.end());
    EXPECT_EQ(text_of(first.events), whole);
  }
  EXPECT_EQ(s.metric("quire_requests_cancelled_total"), "0");
}

TEST(Resumable, AFinishedStreamIsKeptForAWhile) {
  TestServer s;
  s.start();
  const Heard all = hear(s, 1000);
  EXPECT_EQ(all.events.back().data, "[DONE]");
  const Heard again = go_on(s, all, "0");
  EXPECT_EQ(text_of(again.events), text_of(all.events));
  EXPECT_EQ(again.events.size(), all.events.size());
}

TEST(Resumable, IsForWhoBeganIt) {
  TestServer s;
  s.options.guard.origins = {"*"};
  s.start();
  const HttpHeaders page{{"Origin", "https://a.example"}};
  const Heard all = hear(s, 1000, page);
  const auto status = [&](const std::string& stream, const std::string& after, HttpHeaders headers) {
    return go_on(s, stream, after, std::move(headers)).stream.substr(0, 3);
  };
  const HttpHeader secret{"x-quire-stream-secret", all.secret};
  ASSERT_EQ(all.secret.size(), 32U);
  EXPECT_EQ(status(all.stream, "0", {}), "404") << "without keys the name alone is not enough";
  EXPECT_EQ(status(all.stream, "0", {{"x-quire-stream-secret", std::string(32, '0')}}), "404");
  EXPECT_EQ(status(all.stream, "0", {secret, {"Authorization", "Bearer other"}}), "404");
  EXPECT_EQ(status(all.stream, "0", {secret, {"Origin", "https://b.example"}}), "404");
  EXPECT_EQ(status("strm_0", "0", {secret}), "404");
  EXPECT_EQ(status(all.stream, "x", {secret}), "400");
  EXPECT_EQ(status(all.stream, "100000", {secret}), "410");
  EXPECT_EQ(status(all.stream, "0", {secret, {"Origin", "https://a.example"}}), "200");
}

HttpHeaders key(const std::string& text) { return {{"Authorization", "Bearer " + text}}; }

struct Keyed : TestServer {
  Keyed() { options.keys = {plain_key("a", "one", true, false), plain_key("b", "two", true, false)}; }
};

TEST(Resumable, WithKeysTheKeyIsTheProof) {
  Keyed s;
  s.start();
  const Heard all = hear(s, 1000, key("one"));
  EXPECT_EQ(all.secret, "");
  EXPECT_EQ(go_on(s, all.stream, "0", {}).stream.substr(0, 3), "401");
  EXPECT_EQ(go_on(s, all.stream, "0", key("two")).stream.substr(0, 3), "404");
  EXPECT_EQ(text_of(go_on(s, all.stream, "0", key("one")).events), text_of(all.events));
}

// What is refused, on its head or in its body, and what another key begins, pushes nobody's stream out.
TEST(Resumable, OthersPushNoDetachedStreamOut) {
  Keyed s;
  s.options.limits.n_resumable = 64;  // less than what is begun below
  s.engine.tokens_per_step = 2;
  s.start();
  const Heard mine = hear(s, 4, key("one"));
  ASSERT_FALSE(mine.stream.empty());
  const auto post = [&](HttpHeaders headers, const std::string& body) {
    headers.push_back({"x-quire-resumable", "1"});
    return s.post("/v1/completions", body, std::move(headers)).status;
  };
  for (int i = 0; i < 1100; ++i) ASSERT_EQ(post({}, kBody), 401);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(post(key("two"), "{"), 400);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(post(key("two"), R"({"prompt":"x","max_tokens":1})"), 200);
  for (int i = 0; i < 40; ++i)
    ASSERT_FALSE(hear(s, 1000, key("two")).stream.empty()) << "one's own over ones make room";
  const Heard rest = go_on(s, mine.stream, mine.events.back().id, key("one"));
  ASSERT_FALSE(rest.events.empty()) << rest.stream;
  EXPECT_EQ(rest.events.back().data, "[DONE]");
}

TEST(Resumable, WhereAllIsFullANewStreamIsNotResumable) {
  Keyed s;
  s.options.limits.n_resumable_each = 2;
  s.engine.pause(true);
  s.start();
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nx-quire-resumable: 1\r\n"
      "Content-Length: " +
      std::to_string(std::string(kBody).size()) + "\r\n\r\n" + kBody;
  std::vector<std::unique_ptr<RawClient>> under_way;
  for (int i = 0; i < 2; ++i) {
    under_way.push_back(std::make_unique<RawClient>(s.serving->port()));
    under_way.back()->send(head);
  }
  ASSERT_TRUE(eventually([&] { return s.engine.n_running() == 2; }));
  s.engine.step_us = 150'000;
  s.engine.pause(false);
  const Heard third = hear(s, 1000, key("one"));
  EXPECT_EQ(third.resumable + third.stream, "0") << "said in a header, and answered all the same";
  EXPECT_EQ(third.events.back().data, "[DONE]");
}

TEST(Resumable, ANewStreamOfAnotherHasRoomBesideAFullShare) {
  Keyed s;
  s.options.limits.n_resumable_each = 1;
  s.engine.pause(true);
  s.start();
  RawClient mine(s.serving->port());
  mine.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nx-quire-resumable: 1\r\n"
      "Content-Length: " +
      std::to_string(std::string(kBody).size()) + "\r\n\r\n" + kBody);
  ASSERT_TRUE(eventually([&] { return s.engine.n_running() == 1; }));
  s.engine.pause(false);
  EXPECT_FALSE(hear(s, 1000, key("two")).stream.empty());
}

// Nobody begins or takes up another: its time is over all the same, and what it held is free.
TEST(Resumable, AnAbandonedStreamEndsWithItsTime) {
  TestServer s;
  s.options.limits.resumable_s = 1;
  s.engine.script = [](const Request&) { return std::vector<Token>(1'000'000, kFirstByte + 'a'); };
  s.engine.options_.n_ctx = 1 << 20;
  s.engine.step_us = 1000;
  s.start();
  {
    auto c = s.client();
    const auto r = c.events({"POST",
                             "/v1/completions",
                             {{"Content-Type", "application/json"}, {"x-quire-resumable", "1"}},
                             R"({"prompt":"x","max_tokens":1000000,"stream":true})"},
                            [](SseEvent&&, int64_t) { return false; });
    ASSERT_TRUE(r);
  }
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }, 20'000));
}

// DELETE needs no wait: the sequence is cancelled, whether its client is still there or not.
TEST(Resumable, ADeletedStreamEndsAtOnce) {
  TestServer s;
  s.engine.script = [](const Request&) { return std::vector<Token>(1'000'000, kFirstByte + 'a'); };
  s.engine.options_.n_ctx = 1 << 20;
  s.engine.step_us = 1000;
  s.start();
  const auto erase = [&](const std::string& stream, const std::string& secret) {
    auto c = s.client();
    const auto r = c.request({"DELETE", "/v1/streams/" + stream, {{"x-quire-stream-secret", secret}}, ""});
    return r ? r->status : 0;
  };
  const std::string body = R"({"prompt":"x","max_tokens":1000000,"stream":true})";
  RawClient reads(s.serving->port());
  reads.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nx-quire-resumable: 1\r\nContent-Length: " +
             std::to_string(body.size()) + "\r\n\r\n" + body);
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos) {
    const std::string more = reads.read_some();
    ASSERT_FALSE(more.empty()) << head;
    head += more;
  }
  const auto field = [&](const std::string& name) {
    const size_t at = head.find("\r\n" + name + ": ");
    EXPECT_NE(at, std::string::npos) << head;
    return at == std::string::npos
               ? ""
               : head.substr(at + name.size() + 4, head.find("\r\n", at + 2) - at - name.size() - 4);
  };
  const std::string stream = field("x-quire-stream"), secret = field("x-quire-stream-secret");
  EXPECT_EQ(erase(stream, "guessed"), 404);
  EXPECT_EQ(s.engine.n_running(), 1);
  EXPECT_EQ(erase(stream, secret), 200);
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }, 20'000)) << "its client was still reading";
  EXPECT_EQ(erase(stream, secret), 404) << "and it is forgotten";

  auto left = s.client();
  const auto r = left.events({"POST", "/v1/completions", {{"x-quire-resumable", "1"}}, body},
                             [](SseEvent&&, int64_t) { return false; });
  ASSERT_TRUE(r);
  EXPECT_EQ(erase(*r->header("x-quire-stream"), *r->header("x-quire-stream-secret")), 200);
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }, 20'000)) << "its client had left";
  EXPECT_TRUE(eventually([&] { return s.metric("quire_requests_cancelled_total") == "2"; }));
}

class NoReply final : public Reply {
 public:
  void add_header(std::string_view, std::string_view) override {}
  bool send(int, HttpHeaders, std::string) override { return true; }
  bool start_stream(int, HttpHeaders) override { return true; }
  bool write(std::string_view) override { return true; }
  void end() override {}
  void abort() override {}
  void set_producer(Producer) override {}
  void notify() override {}
  void on_close(Closed fn) override { close = std::move(fn); }
  void post(std::function<void()>) override {}
  void flush() override {}
  bool closed() const override { return false; }
  int64_t unsent_bytes() const override { return 0; }
  Closed close;
};

TEST(StreamTable, GivesUpByTheClockAlone) {
  ManualClock clock;
  ServeLimits limits;
  limits.resumable_s = 60;
  StreamTable table(clock, limits);
  const auto reply = std::make_shared<NoReply>();
  StreamName name;
  name.id = "s";
  const auto stream = std::make_shared<ResumableStream>(std::move(name), reply, 1000);
  stream->open();
  bool gone = false;
  stream->on_close([&](CloseReason reason) { gone = reason == CloseReason::client_gone; });
  ASSERT_TRUE(table.add(stream));
  stream->start_stream(200, sse_headers());
  const auto pass = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      clock.advance_ns(kNsPerSecond);
      table.expire();
    }
  };
  pass(3600);
  EXPECT_EQ(table.size(), 1) << "it has a connection";
  reply->close(CloseReason::client_gone);
  table.expire();
  clock.advance_ns(3600 * kNsPerSecond);
  table.expire();
  EXPECT_EQ(table.size(), 1) << "the process was stopped, and so perhaps was who would have come back";
  pass(57);
  EXPECT_EQ(table.size(), 1);
  EXPECT_FALSE(gone);
  pass(2);
  EXPECT_EQ(table.size(), 0);
  EXPECT_TRUE(gone);
}

TEST(Resumable, ForgetsOldEventsAndSaysSo) {
  TestServer s;
  s.options.limits.resumable_bytes = 100;  // room for [DONE] alone
  s.start();
  const Heard all = hear(s, 1000);
  EXPECT_EQ(all.events.back().data, "[DONE]");
  const std::string refused = go_on(s, all, "0").stream;
  EXPECT_EQ(refused.substr(0, 3), "410") << refused;
  EXPECT_NE(refused.find("event_not_kept"), std::string::npos);
  const Heard last = go_on(s, all, all.events[all.events.size() - 2].id);
  ASSERT_EQ(last.events.size(), 1u);
  EXPECT_EQ(last.events[0].data, "[DONE]");
}

TEST(Resumable, WithoutTheHeaderACutCancels) {
  TestServer s;
  s.engine.step_us = 200;
  s.start();
  auto c = s.client();
  const auto r = c.events({"POST",
                           "/v1/completions",
                           {{"Content-Type", "application/json"}},
                           R"({"prompt":"x","max_tokens":20,"stream":true})"},
                          [](SseEvent&& e, int64_t) {
                            EXPECT_EQ(e.id, "");
                            return false;
                          });
  ASSERT_TRUE(r);
  EXPECT_EQ(r->header("x-quire-stream"), nullptr);
}

TEST(Resumable, ADrainGivesUpWhatNobodyHears) {
  TestServer s;
  s.engine.step_us = 1000;
  s.start();
  const Heard first = hear(s, 1);
  EXPECT_FALSE(first.stream.empty());
  s.serving->stop(20'000);  // returns: the stream without a client is not waited for
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }));
}

}  // namespace
}  // namespace quire
