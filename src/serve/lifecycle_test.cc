// What becomes of requests when clients leave, read slowly, come in crowds, when the engine fails, and when the server
// stops.
#include <atomic>
#include <future>

#include "sample/rules.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kPath = "/v1/completions";

std::vector<Token> letters(size_t n) { return std::vector<Token>(n, kFirstByte + 'x'); }
std::string head(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST(Lifecycle, LeavingMidStreamCancels) {
  TestServer s;
  s.engine.script = [](const Request&) { return letters(1'000'000); };
  s.engine.options_.n_ctx = 2'000'000;
  s.engine.step_us = 200;
  s.start();
  for (const bool reset : {false, true}) {
    RawClient c(s.serving->port());
    c.send(head(kPath, R"({"prompt":"x","max_tokens":1000000,"stream":true,"n":3})"));
    EXPECT_NE(c.read_until("data: {").find("200 OK"), std::string::npos);
    EXPECT_EQ(s.engine.n_running(), 3);
    if (reset)
      c.reset();
    else
      c.close();
    EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }));
  }
  EXPECT_EQ(s.engine.stats().n_cancelled, 6);
  EXPECT_EQ(s.metric("quire_requests_cancelled_total"), "2");
}

TEST(Lifecycle, WhatHadFinishedBeforeItsClientLeftWasNotAborted) {
  TestServer s;
  s.engine.script = [](const Request& r) { return letters(r.sampling.seed == 0 ? 2 : 1'000'000); };
  s.engine.options_.n_ctx = 2'000'000;
  s.engine.step_us = 200;
  s.start();
  RawClient c(s.serving->port());
  c.send(head(kPath, R"({"prompt":"x","max_tokens":1000000,"stream":true,"n":3,"seed":0})"));
  c.read_until("\"finish_reason\":\"");
  c.close();
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }));
  EXPECT_TRUE(eventually([&] { return s.metric(R"(quire_request_success_total{finished_reason="abort"})") == "2"; }));
  EXPECT_EQ(s.metric(R"(quire_request_success_total{finished_reason="stop"})"), "1");
}

TEST(Lifecycle, LeavingBeforeTheAnswerCancels) {
  TestServer s;
  s.engine.pause(true);
  s.start();
  RawClient c(s.serving->port());
  c.send(head(kPath, R"({"prompt":"x"})"));
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 1; }));
  c.close();
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }));
  EXPECT_TRUE(
      eventually([&] { return s.metric("quire_requests_total{endpoint=\"/v1/completions\",status=\"499\"}") == "1"; }));
}

TEST(Lifecycle, EngineFailureIsAnErrorForItsRequestOnly) {
  TestServer s;
  s.engine.error = "no token could be sampled";
  s.start();
  const HttpResponse whole = s.post(kPath, R"({"prompt":"x"})");
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(text_at(json_at(parse_json(whole.body), "error", "message")), "no token could be sampled");
  s.engine.tokens_per_step = 1;
  const auto e = s.stream(kPath, R"({"prompt":"x","stream":true})");
  if (e.status == 200) {  // the token came in an earlier sweep than the failure
    ASSERT_FALSE(e.list.empty());
    EXPECT_EQ(e.list.back().event, "error");
    EXPECT_EQ(text_at(json_at(parse_json(e.list.back().data), "error", "message")), "no token could be sampled");
  } else {
    EXPECT_EQ(e.status, 500);
  }
  EXPECT_EQ(s.get("/health").status, 200);
}

TEST(Lifecycle, RulesThatLeaveNothingAreTheRequestsOwnError) {
  TestServer s;
  s.engine.error = std::string(kEndedByRules) + " at position 3: everything is forbidden by regex, bad_words";
  s.start();
  const HttpResponse whole = s.post(kPath, R"({"prompt":"x"})");
  EXPECT_EQ(whole.status, 400);
  EXPECT_EQ(text_at(json_at(parse_json(whole.body), "error", "message")), s.engine.error);
  EXPECT_EQ(text_at(json_at(parse_json(whole.body), "error", "type")), "invalid_request_error");
  EXPECT_EQ(text_at(json_at(parse_json(whole.body), "error", "code")), "ended_by_rules");
  s.engine.tokens_per_step = 1;
  const auto e = s.stream(kPath, R"({"prompt":"x","stream":true})");
  if (e.status == 200) {  // the token came in an earlier sweep than the failure
    ASSERT_FALSE(e.list.empty());
    EXPECT_EQ(text_at(json_at(parse_json(e.list.back().data), "error", "type")), "invalid_request_error");
  } else {
    EXPECT_EQ(e.status, 400);
  }
}

TEST(Lifecycle, AFullEngineIs429AndNothingStays) {
  TestServer s;
  s.engine.options_.max_queue = 4;
  s.engine.pause(true);
  s.start();
  const HttpResponse r = s.post(kPath, R"({"prompt":"x","n":6})");
  EXPECT_EQ(r.status, 429);
  ASSERT_NE(r.header("retry-after"), nullptr);
  EXPECT_GE(std::stoi(*r.header("retry-after")), 1);
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "type")), "rate_limit_error");
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }));
}

// Eight requests while the only prep thread is held up: it has one, two may wait.
void expect_two_wait(TestServer& s) {
  s.options.n_prep_threads = 1;
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> n_held = 0;
  s.engine.script = [&n_held, open](const Request& r) {
    ++n_held;
    open.wait();  // holds the only prep thread in submit
    return FakeEngine::default_script(r);
  };
  s.start();
  std::vector<std::future<HttpResponse>> answers;
  const auto post = [&] {
    answers.push_back(std::async(std::launch::async, [&] { return s.post(kPath, R"({"prompt":"x"})"); }));
  };
  post();
  ASSERT_TRUE(eventually([&] { return n_held > 0; }));  // the queue is empty from here on
  for (int i = 0; i < 7; ++i) post();
  int n_refused = 0;
  EXPECT_TRUE(eventually([&] {
    n_refused = 0;
    for (auto& a : answers) n_refused += a.wait_for(std::chrono::seconds(0)) == std::future_status::ready ? 1 : 0;
    return n_refused == 5;
  }));
  gate.set_value();
  int n_done = 0;
  for (auto& a : answers) {
    const HttpResponse r = a.get();
    n_done += r.status == 200 ? 1 : 0;
    if (r.status != 200) {
      EXPECT_EQ(r.status, 429);
      EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "code")), "queue_full");
      EXPECT_NE(r.header("retry-after"), nullptr);
    }
  }
  EXPECT_EQ(n_done, 3);
}

TEST(Lifecycle, AFullPrepQueueIs429) {
  TestServer s;
  s.options.limits.prep_queue = 2;
  expect_two_wait(s);
}

TEST(Lifecycle, TooManyWaitingBytesAre429) {
  TestServer s;
  s.options.limits.prep_bytes = 2 * 14;  // {"prompt":"x"}
  expect_two_wait(s);
}

// A client that reads nothing: its stream fills the sockets, the reply and the channel, and is then cancelled; its
// neighbour's stream is what it would have been alone.
TEST(Lifecycle, ASlowReaderIsCancelledAndHarmsNobody) {
  TestServer s;
  s.options.limits.channel_bytes = 64 << 10;
  s.options.http.out_bytes = 64 << 10;
  s.options.http.send_buffer_bytes = 32 << 10;
  s.engine.script = [](const Request& r) {
    return r.prompt.size() == 3 ? letters(1'000'000) : FakeEngine::default_script(r);
  };
  s.engine.options_.n_ctx = 2'000'000;
  s.engine.tokens_per_step = 20;
  s.engine.step_us = 100;
  s.start();
  RawClient slow(s.serving->port(), 4 << 10);
  slow.send(head(kPath, R"({"prompt":"xx","max_tokens":1000000,"stream":true})"));
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 1; }));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(joined_text(s.stream(kPath, R"({"prompt":"abcdef","seed":4,"max_tokens":24,"stream":true})")).size(),
              24u);
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }));
  EXPECT_EQ(s.metric("quire_requests_stalled_total"), "1");
  EXPECT_EQ(s.engine.stats().n_cancelled, 1);
}

TEST(Lifecycle, AReaderThatOnlyLagsGetsEverything) {
  TestServer s;
  s.options.http.out_bytes = 16 << 10;
  s.options.http.send_buffer_bytes = 8 << 10;
  s.engine.script = [](const Request&) { return letters(3000); };
  s.engine.tokens_per_step = 10;
  s.start();
  RawClient c(s.serving->port(), 4 << 10);
  c.send(head(kPath, R"({"prompt":"x","max_tokens":4000,"stream":true})"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::string all = c.read_until("data: [DONE]");
  size_t n = 0;
  for (size_t at = all.find("\"text\":\""); at != std::string::npos; at = all.find("\"text\":\"", at + 1)) {
    size_t end = at + 8;
    while (end < all.size() && all[end] == 'x') ++end;
    n += end - at - 8;
  }
  EXPECT_GE(n, 2990u);  // a chunk border may fall into a text
  EXPECT_NE(all.find("\"finish_reason\":\"stop\""), std::string::npos);
}

// Every stream of a crowd says what it says alone.
TEST(Lifecycle, ManyStreamsAtOnce) {
  TestServer s;
  s.options.n_io_threads = 2;
  s.start();
  const auto body = [](int i) {
    return R"({"prompt":"p)" + std::to_string(i % 7) + R"(","seed":)" + std::to_string(i % 11) + R"(,"max_tokens":24)";
  };
  std::vector<std::string> alone;
  alone.reserve(77);
  for (int i = 0; i < 77; ++i)
    alone.push_back(text_at(json_at(parse_json(s.post(kPath, body(i) + "}").body), "choices", 0, "text")));
  std::atomic<int> n_wrong{0}, n_done{0};
  std::vector<std::thread> clients;
  clients.reserve(16);
  for (int c = 0; c < 16; ++c) {
    clients.emplace_back([&, c] {
      for (int k = 0; k < 25; ++k) {
        const int i = (c * 25 + k) % 77;
        const auto e = s.stream(kPath, body(i) + R"(,"stream":true})");
        n_wrong += joined_text(e) == alone[static_cast<size_t>(i)] && e.list.back().data == "[DONE]" ? 0 : 1;
        ++n_done;
      }
    });
  }
  for (auto& c : clients) c.join();
  EXPECT_EQ(n_wrong, 0);
  EXPECT_EQ(n_done, 400);
  EXPECT_EQ(s.engine.n_running(), 0);
}

// Random disconnects: nothing is left behind.
TEST(Lifecycle, CancelStormLeavesNothing) {
  TestServer s;
  s.engine.script = [](const Request&) { return letters(200); };
  s.engine.step_us = 50;
  s.start();
  std::vector<std::thread> clients;
  clients.reserve(8);
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      Rng rng(static_cast<uint64_t>(c));
      for (int k = 0; k < 40; ++k) {
        RawClient raw(s.serving->port());
        raw.send(head(kPath, R"({"prompt":"x","max_tokens":200,"n":2,"stream":)" +
                                 std::string(k % 2 == 0 ? "true" : "false") + "}"));
        std::this_thread::sleep_for(std::chrono::microseconds(rng.between(0, 3000)));
        if (rng.between(0, 1) == 0) raw.reset();
      }
    });
  }
  for (auto& c : clients) c.join();
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }));
  EXPECT_EQ(s.post(kPath, R"({"prompt":"x"})").status, 200);
}

TEST(Lifecycle, DrainFinishesWhatRunsAndRefusesWhatComes) {
  TestServer s;
  s.engine.pause(true);
  s.start();
  auto running =
      std::async(std::launch::async, [&] { return s.stream(kPath, R"({"prompt":"x","max_tokens":9,"stream":true})"); });
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 1; }));
  auto stopping = std::async(std::launch::async, [&] { s.serving->stop(20'000); });
  EXPECT_TRUE(eventually([&] { return s.get("/ready").status == 503; }));
  EXPECT_EQ(s.get("/health").body, R"({"status":"draining"})") << "alive, but not for new requests";
  const HttpResponse r = s.post(kPath, R"({"prompt":"x"})");
  EXPECT_EQ(r.status, 503);
  EXPECT_NE(r.header("retry-after"), nullptr);
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "code")), "shutting_down");
  s.engine.pause(false);
  const auto e = running.get();
  EXPECT_EQ(joined_text(e).size(), 9u);
  EXPECT_EQ(e.list.back().data, "[DONE]");
  stopping.get();
  EXPECT_FALSE(s.client().connect());
}

TEST(Lifecycle, DrainEndsAtItsDeadlineAndSaysSo) {
  TestServer s;
  s.engine.script = [](const Request&) { return letters(1'000'000); };
  s.engine.options_.n_ctx = 2'000'000;
  s.engine.step_us = 1000;
  s.start();
  const std::string body = R"({"prompt":"x","max_tokens":1000000)";
  auto stream = std::async(std::launch::async, [&] { return s.stream(kPath, body + R"(,"stream":true})"); });
  auto whole = std::async(std::launch::async, [&] { return s.post(kPath, body + "}"); });
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const int64_t start = test_now_ms();
  auto slow_stop = std::async(std::launch::async, [&] { s.serving->stop(60'000); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  s.serving->stop(100);  // cuts the first one short
  slow_stop.get();
  EXPECT_LT(test_now_ms() - start, 30'000);
  const auto e = stream.get();
  ASSERT_FALSE(e.list.empty());
  EXPECT_EQ(e.list.back().event, "error");
  EXPECT_NE(e.list.back().data.find("shutting_down"), std::string::npos);
  EXPECT_EQ(whole.get().status, 503);
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }))
      << "the engine takes a cancellation at its next step";
}

TEST(Lifecycle, ListensBeforeThereIsAModel) {
  TestServer s;
  auto listening = Listening::start(s.options, s.metrics);
  ASSERT_TRUE(listening) << listening.error().message;
  const std::string url = (*listening)->url();
  ClientOptions where;
  where.port = std::stoi(url.substr(url.rfind(':') + 1));
  for (const char* path : {"/health", "/ready", "/v1/models", "/none"}) {
    const auto early = HttpClient(where).request({"GET", path, {}, ""});
    ASSERT_TRUE(early) << early.error().message;
    EXPECT_EQ(early->status, 503);
    EXPECT_EQ(text_at(json_at(parse_json(early->body), "error", "message")), "Loading model");
  }
  EXPECT_EQ(HttpClient(where).request({"POST", "/v1/completions", {}, std::string(100'000, 'x')})->status, 503);
  auto serving = (*listening)->serve(s.options, s.engine, *s.tokenizer, s.signal);
  ASSERT_TRUE(serving) << serving.error().message;
  s.serving = std::move(*serving);
  s.engine.start();
  EXPECT_EQ(s.serving->url(), url);
  EXPECT_EQ(s.get("/health").status, 200);
  EXPECT_EQ(s.get("/none").status, 404);
}

TEST(Lifecycle, AnEngineThatStopsTellsItsClients) {
  TestServer s;
  s.engine.script = [](const Request&) { return letters(1'000'000); };
  s.engine.options_.n_ctx = 2'000'000;
  s.start();
  EXPECT_EQ(s.get("/health").status, 200);
  auto port_taken = start_serving(
      [&] {
        ServeOptions o = s.options;
        o.port = s.serving->port();
        return o;
      }(),
      s.engine, *s.tokenizer, s.metrics, s.signal);
  ASSERT_FALSE(port_taken);
  EXPECT_NE(port_taken.error().message.find(std::to_string(s.serving->port())), std::string::npos);
  EXPECT_EQ(s.get("/health").status, 200);
}

}  // namespace
}  // namespace quire
