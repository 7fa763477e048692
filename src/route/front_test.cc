// What a router promises about keys, places that are pinned, failures and its own end, between sockets of the test's.
#include <atomic>
#include <mutex>

#include "route/testing.h"

namespace quire {
namespace {

std::string name_of(const FakeWorker& worker) { return "127.0.0.1:" + std::to_string(worker.server->port()); }

const std::string* worker_in(const HttpResponse& response) { return response.header("x-quire-worker"); }

// Answers as the server of a stored response does: only its own are there.
Verdict::Answer keeper(std::string own) {
  return [own = std::move(own)](HttpRequest&& request, const ReplyPtr& reply) {
    const bool asks = request.path == "/v1/responses";
    reply->send(asks ? 200 : 404, {}, asks ? R"({"id":")" + own + R"("})" : "{}");
  };
}

TEST(Pinned, AResponseWaitsForItsWorkerInsteadOfGoingWhereItIsNot) {
  std::atomic<int> n_refused{0};
  const FakeWorker one([&](HttpRequest&& request, const ReplyPtr& reply) {
    if (request.body.find("previous_response_id") == std::string::npos)
      reply->send(200, {}, R"({"id":"resp_1"})");
    else if (n_refused++ == 0)
      reply->send(503, {{"Retry-After", "1"}}, "{}");
    else
      reply->send(200, {}, "at home");
  });
  TestRouter router({&one});
  ASSERT_EQ(router.ask("POST", "/v1/responses", "{}").status, 200);
  const FakeWorker two(keeper("resp_2"));
  router.router->set_workers({{{"127.0.0.1", one.server->port()}, ""}, {{"127.0.0.1", two.server->port()}, ""}});
  ASSERT_TRUE(eventually([&] { return router.count("\"usable\":true") == 2; }));
  const std::string more = R"({"previous_response_id":"resp_1","input":"x"})";
  const HttpResponse busy = router.ask("POST", "/v1/responses", more);
  EXPECT_EQ(busy.status, 503);  // no other has it: the worker's own word, not another's 404
  EXPECT_EQ(*worker_in(busy), name_of(one));
  const HttpResponse later = router.ask("POST", "/v1/responses", more);  // waits for the second that was asked for
  EXPECT_EQ(later.status, 200);
  EXPECT_EQ(later.body, "at home");
}

TEST(Pinned, WhoWaitsInVainIsToldWhichWorkerHasIt) {
  const FakeWorker other(keeper("resp_2"));
  RouteLimits limits;
  limits.wait_ms = 50;
  auto one = std::make_unique<FakeWorker>(keeper("resp_1"));
  const std::string name = name_of(*one);
  TestRouter router({one.get()}, limits);
  ASSERT_EQ(router.ask("POST", "/v1/responses", "{}").status, 200);
  router.router->set_workers({{{"127.0.0.1", one->server->port()}, ""}, {{"127.0.0.1", other.server->port()}, ""}});
  ASSERT_TRUE(eventually([&] { return router.count("\"usable\":true") == 2; }));
  one.reset();
  ASSERT_TRUE(eventually([&] { return router.count("\"usable\":true") == 1; }));
  const HttpResponse in_vain = router.ask("POST", "/v1/responses", R"({"previous_response_id":"resp_1","input":"x"})");
  EXPECT_EQ(in_vain.status, 503);
  EXPECT_NE(in_vain.body.find("only worker " + name +
                              " holds the conversation that this request continues, and it is not available"),
            std::string::npos)
      << in_vain.body;
}

TEST(Failures, A502ThatIsAskedElsewhereCountsAndWhatClientsDoWrongDoesNot) {
  std::atomic<int> status{502}, n_bad{0};
  const FakeWorker bad([&](HttpRequest&&, const ReplyPtr& reply) {
    ++n_bad;
    reply->send(status.load(), {}, "{}");
  });
  const FakeWorker good([](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {}, "{}"); });
  RouteLimits limits;
  limits.eject_ms = limits.most_eject_ms = 600'000;
  TestRouter router({&bad, &good}, limits);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(router.post("{\"user\":\"" + std::to_string(i) + "\"}").status, 200);
  EXPECT_EQ(n_bad.load(), limits.n_failures);
  EXPECT_EQ(router.count("\"ejected\":true"), 1);
  EXPECT_EQ(router.count("\"failures_total\":3"), 1);

  status = 400;
  n_bad = 0;
  TestRouter other({&bad, &good}, limits);
  for (int i = 0; i < 20; ++i) other.post("{\"user\":\"" + std::to_string(i) + "\"}");
  EXPECT_GT(n_bad.load(), limits.n_failures);
  EXPECT_EQ(other.count("\"ejected\":true"), 0);
  EXPECT_EQ(other.count("\"failures_total\":0"), 2);
}

TEST(Stopping, ABodyThatComesBehindTheStopIsRefusedAndNotLost) {
  std::mutex mu;
  ReplyPtr held;
  std::atomic<int> n_asked{0};
  const FakeWorker worker([&](HttpRequest&&, ReplyPtr reply) {
    const std::lock_guard lock(mu);
    held = std::move(reply);
    ++n_asked;
  });
  TestRouter router({&worker});
  RawClient first(router.router->port()), second(router.router->port());
  first.send(post_bytes("{}"));
  ASSERT_TRUE(eventually([&] { return n_asked.load() == 1; }));
  const std::string late = post_bytes("{\"a\":1}");
  second.send(late.substr(0, late.size() - 3));                 // the head, which may pass, and some of the body
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until its head is judged
  std::thread stopper([&] { router.router->stop(kPatienceMs); });
  ASSERT_TRUE(eventually([&] { return router.client->request({"GET", "/ready", {}, ""})->status == 503; }));
  second.send(late.substr(late.size() - 3));
  EXPECT_NE(second.read_until("shutting_down", 5'000).find(" 503 "), std::string::npos);
  EXPECT_EQ(n_asked.load(), 1);
  {
    const std::lock_guard lock(mu);
    held->send(200, {}, "late");
  }
  EXPECT_NE(first.read_to_end().find("late"), std::string::npos);
  stopper.join();
}

std::vector<ApiKey> limited_key(KeyLimits limits) {
  std::vector<ApiKey> keys{plain_key("one", "k", true, false)};
  keys.front().limits = limits;
  return keys;
}

struct KeyedRouter : TestRouter {
  KeyedRouter(const FakeWorker& worker, KeyLimits limits, const RouteLimits& route = {})
      : TestRouter({&worker}, route, {}, limited_key(limits)) {}
  uint64_t paid(const char* kind) {
    return metrics.counter("quire_key_tokens_total", "", {{"key", "one"}, {"kind", kind}}).value();
  }
  HttpResponse ask_keyed(std::string body) {
    return ask("POST", "/v1/completions", std::move(body), {{"Authorization", "Bearer k"}});
  }
};

TEST(Keys, PayForWhatCameHoweverItEnds) {
  const FakeWorker worker([](HttpRequest&& request, const ReplyPtr& reply) {
    const bool lines = request.body.find("lines") != std::string::npos;
    reply->start_stream(200, {{"Content-Type", lines ? "application/x-ndjson" : "text/event-stream"}});
    for (int i = 0; i < 10; ++i) {
      const std::string number = "n" + std::to_string(i);
      reply->write(lines ? "{\"" + number + "\":\"" + std::string(100, 'x') + "\"}\n" : "data: " + number + "\r\n\r\n");
    }
    if (request.body.find("held") == std::string::npos) return reply->end();
    static ReplyPtr held;
    held = reply;
  });
  KeyedRouter router(worker, {});
  uint64_t expected = 0;
  for (const char* body : {"{\"a\":\"lines\"}", "{\"a\":\"whole\"}", "{\"a\":\"held\"}"}) {
    RawClient client(router.router->port());
    std::string bytes = post_bytes(body);
    bytes.insert(bytes.find("Host:"), "Authorization: Bearer k\r\n");
    client.send(bytes);
    EXPECT_NE(client.read_until("n9", 5'000).find("n9"), std::string::npos) << body;
    client.close();
    expected += 10;
    EXPECT_TRUE(eventually([&] { return router.paid("generation") == expected; }, 5'000))
        << body << ": " << router.paid("generation") << " of " << expected;
  }
  EXPECT_TRUE(router.nothing_charged(1));
}

TEST(Keys, PayForThePromptByTheBodyAndOnlyWhereAWorkerGotIt) {
  const FakeWorker worker([](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {}, "{}"); });
  RouteLimits limits;
  limits.wait_ms = 1;
  KeyedRouter router(worker, {}, limits);
  const std::string hidden = R"({"input_prefix":")" + std::string(4000, 'x') + "\"}";  // a name that is not known here
  EXPECT_EQ(router.ask_keyed(hidden).status, 200);
  EXPECT_EQ(router.paid("prompt"), hidden.size() / 4);
  router.router->set_workers({});
  EXPECT_EQ(router.ask_keyed(hidden).status, 503);
  EXPECT_EQ(router.paid("prompt"), hidden.size() / 4);
}

TEST(Keys, TokensUnderWayAreLimitedAndGivenBack) {
  const FakeWorker worker([](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {}, "{}"); });
  KeyLimits limits;
  limits.tokens_under_way = 1'000;
  KeyedRouter router(worker, limits);
  const HttpResponse refused = router.ask_keyed(R"({"max_tokens":2000})");
  EXPECT_EQ(refused.status, 400);  // more than the key may ever have
  EXPECT_NE(refused.body.find("1000 tokens under way (tokens_under_way)"), std::string::npos) << refused.body;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(router.ask_keyed(R"({"max_tokens":900})").status, 200) << i;
}

TEST(Front, AModelIsFoundHoweverItsNameIsEscaped) {
  const FakeWorker one(R"({"data":[{"id":"org/one"}]})",
                       [](HttpRequest&&, const ReplyPtr& r) { r->send(200, {}, "1"); });
  const FakeWorker two(R"({"data":[{"id":"org/two"}]})",
                       [](HttpRequest&&, const ReplyPtr& r) { r->send(200, {}, "2"); });
  TestRouter router({&one, &two});
  ASSERT_TRUE(eventually([&] { return router.ask("GET", "/v1/models/org%2Fone").status == 200; }));
  ASSERT_TRUE(eventually([&] { return router.ask("GET", "/v1/models/org/two").status == 200; }));
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(router.post(R"({"model":"org\/one"})").body, "1");
    EXPECT_EQ(router.post(R"({"mod\u0065l":"\u006frg/two"})").body, "2");
  }
}

TEST(Front, APathForHealthThatIsNoneIsRefused) {
  for (const char* path : {"health", "http://elsewhere/health", "/a b", "/x\r\nEvil: 1", "/a#b", "/%zz"}) {
    RouteOptions options;
    options.port = 0;
    options.health_path = path;
    Metrics metrics;
    const auto router = start_router(options, metrics);
    ASSERT_FALSE(router) << path;
    EXPECT_NE(router.error().message.find("--health-path"), std::string::npos) << router.error().message;
  }
}

TEST(Front, RefusalsAreErrorsAsThePathsDialectHasThem) {
  const FakeWorker cuts([](HttpRequest&&, const ReplyPtr& reply) { reply->abort(); });
  RouteLimits limits;
  limits.wait_ms = 1;
  KeyedRouter router(cuts, {}, limits);
  const std::string name = name_of(cuts);
  const auto expect = [&](const char* key, int status, const std::string& text) {
    const HttpHeaders sent{{"Authorization", std::string("Bearer ") + key}};
    const HttpResponse theirs = router.ask("POST", "/api/chat", "{}", sent);
    EXPECT_EQ(theirs.status, status);
    EXPECT_TRUE(theirs.body.starts_with("{\"error\":\"" + text)) << theirs.body;
    const HttpResponse ours = router.ask("POST", "/v1/chat/completions", "{}", sent);
    EXPECT_EQ(ours.status, status);
    EXPECT_TRUE(ours.body.starts_with("{\"error\":{\"message\":\"" + text)) << ours.body;
    const HttpResponse anthropic = router.ask("POST", "/v1/messages", "{}", sent);
    EXPECT_EQ(anthropic.status, status);
    EXPECT_TRUE(anthropic.body.starts_with("{\"type\":\"error\",")) << anthropic.body;
    EXPECT_NE(anthropic.body.find("\"message\":\"" + text), std::string::npos) << anthropic.body;
    EXPECT_EQ(theirs.header("retry-after") != nullptr, status == 503);
    EXPECT_EQ(theirs.header("x-quire-worker") != nullptr, status == 502);
  };
  expect("other", 401, "a valid key is needed");
  expect("k", 502, "worker " + name + ": ");
  router.router->set_workers({});
  expect("k", 503, "no worker can be given this request");
}

// A worker of another make: its health is elsewhere, and what it says at /health is no word about it.
TEST(Front, AWorkersHealthIsAskedWhereItIs) {
  std::mutex mu;
  std::string asked;
  FunctionHandler handler([&](HttpRequest&& request, const ReplyPtr& reply) {
    const std::lock_guard lock(mu);
    asked += request.target + " ";
    reply->send(request.target == "/live?deep=1" ? 200 : 500, {}, "{}");
  });
  const auto worker = std::move(*Server::start({}, handler));
  RouteOptions options;
  options.port = 0;
  options.health_path = "/live?deep=1";
  options.workers = {{{"127.0.0.1", worker->port()}, ""}};
  Metrics metrics;
  const auto router = std::move(*start_router(options, metrics));
  HttpClient client(ClientOptions{.port = router->port()});
  EXPECT_TRUE(eventually([&] { return client.request({"GET", "/ready", {}, ""})->status == 200; }));
  const std::lock_guard lock(mu);
  EXPECT_EQ(asked.find("/health"), std::string::npos);
}

// Of ours, whether it takes requests, so one that is to end leaves at once; of others, whether they are well.
TEST(Front, AServerOfOursIsAskedWhetherItIsReady) {
  for (const bool ours : {true, false}) {
    std::atomic<bool> ends{false};
    std::atomic<int> n_ready{0};
    FunctionHandler handler([&](HttpRequest&& request, const ReplyPtr& reply) {
      n_ready += request.target == "/ready";
      const bool lists = request.target == "/v1/models";
      const std::string list = std::string(R"({"data":[{"id":"m","owned_by":")") + (ours ? "quire" : "vllm") + "\"}]}";
      reply->send(request.target == "/ready" && ends ? 503 : 200, {}, lists ? list : "{}");
    });
    const auto worker = std::move(*Server::start({}, handler));
    RouteLimits limits;
    limits.probe_ms = 20;
    TestRouter router({}, limits, {{{"127.0.0.1", worker->port()}, ""}});
    const auto status = [&] { return router.ask("GET", "/ready").status; };
    EXPECT_TRUE(eventually([&] { return status() == 200; }));
    ends = true;
    EXPECT_TRUE(eventually([&] { return status() == (ours ? 503 : 200); }));
    EXPECT_EQ(n_ready > 0, ours);
  }
}

}  // namespace
}  // namespace quire
