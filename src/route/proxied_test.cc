// Requests through a whole router, between sockets that read or answer as no proper one would.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "http/byte_budget.h"
#include "route/context.h"
#include "route/testing.h"

namespace quire {
namespace {

TEST(Proxied, WholeAnswersKeepTheirLengthAndWhatFindsNoRoomIsPassedOnAsItComes) {
  const std::string large(100'000, 'x');
  const FakeWorker worker([&](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {{"X-Own", "1"}}, large); });
  TestRouter roomy({&worker});
  const HttpResponse whole = roomy.post("{}");
  EXPECT_EQ(whole.body, large);
  ASSERT_NE(whole.header("content-length"), nullptr);
  EXPECT_EQ(*whole.header("content-length"), "100000");
  EXPECT_EQ(*whole.header("x-own"), "1");
  RouteLimits limits;
  limits.held_bytes = 50'000;
  TestRouter narrow({&worker}, limits);
  const HttpResponse passed = narrow.post("{}");
  EXPECT_EQ(passed.body, large);
  EXPECT_EQ(passed.header("content-length"), nullptr);
}

// A socket that answers GET well and breaks off every other answer in its middle.
class BreakingWorker {
 public:
  BreakingWorker() : thread_([this] { run(); }) {}
  ~BreakingWorker() {
    ends_ = true;
    RawClient wake(listener_.port());
    thread_.join();
  }
  int port() const { return listener_.port(); }
  int n_asked() const { return n_asked_; }

 private:
  void run() {
    while (true) {
      const int fd = listener_.accept();
      if (ends_ || fd < 0) {
        ::close(fd);
        return;
      }
      const std::string head = read_from(fd, "\r\n\r\n");
      if (head.starts_with("GET")) {
        say_to(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
      } else if (!head.empty()) {
        ++n_asked_;
        say_to(fd, "HTTP/1.1 200 OK\r\nX-Broken: 1\r\nContent-Length: 100\r\n\r\n{\"id\":\"resp_1\"");
      }
      ::close(fd);
    }
  }
  RawListener listener_;
  std::atomic<bool> ends_{false};
  std::atomic<int> n_asked_{0};
  std::thread thread_;
};

TEST(Proxied, AnAnswerThatBreaksBeforeItIsSentIsAskedElsewhereAndLeavesNoTrace) {
  const BreakingWorker broken;
  const FakeWorker good([](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {}, "whole"); });
  TestRouter router({&good}, {}, {{{"127.0.0.1", broken.port()}, ""}});
  for (int i = 0; i < 8; ++i) {
    const HttpResponse response = router.post("{\"user\":\"" + std::to_string(i) + "\"}");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "whole");
    EXPECT_EQ(response.header("x-broken"), nullptr);
    int n_named = 0;
    for (const HttpHeader& h : response.headers) n_named += h.name == "x-quire-worker";
    EXPECT_EQ(n_named, 1);
    EXPECT_EQ(*response.header("x-quire-worker"), "127.0.0.1:" + std::to_string(good.server->port()));
  }
  EXPECT_GE(broken.n_asked(), 1);
  EXPECT_LE(broken.n_asked(), 3);  // n_failures
  EXPECT_TRUE(router.nothing_charged(2));
}

TEST(Proxied, AClientThatReadsNothingStopsTheWorkerAndLeavingFreesIt) {
  std::atomic<int64_t> n_taken{0};
  std::atomic<int> n_gone{0};
  const FakeWorker worker([&](HttpRequest&&, const ReplyPtr& reply) {
    reply->on_close([&](CloseReason) { ++n_gone; });
    reply->start_stream(200, {{"Content-Type", "application/octet-stream"}});
    static ReplyPtr held;  // the stream has no end of its own
    held = reply;
    reply->set_producer([&](Reply& r) {
      while (r.write(std::string(64 << 10, 'z'))) n_taken += 64 << 10;
    });
  });
  TestRouter router({&worker});
  RawClient client(router.router->port(), 16 << 10);
  client.send(post_bytes("{}"));
  EXPECT_NE(client.read_until("\r\n\r\n").find("x-quire-worker: 127.0.0.1:"), std::string::npos);
  int64_t before = -1;
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return std::exchange(before, n_taken.load()) == n_taken.load();
  }));
  EXPECT_LT(n_taken.load(), 64 << 20);  // what buffers on the way hold
  EXPECT_EQ(n_gone.load(), 0);
  client.reset();
  EXPECT_TRUE(eventually([&] { return n_gone.load() == 1; }));
  EXPECT_TRUE(router.nothing_charged(1));
}

TEST(Proxied, AClientThatLeavesBeforeTheFirstByteFreesTheWorkerToo) {
  std::mutex mu;
  std::vector<ReplyPtr> held;
  std::atomic<int> n_asked{0}, n_gone{0};
  const FakeWorker worker([&](HttpRequest&&, ReplyPtr reply) {
    reply->on_close([&](CloseReason) { ++n_gone; });
    const std::lock_guard lock(mu);
    held.push_back(std::move(reply));
    ++n_asked;
  });
  TestRouter router({&worker});
  for (int i = 1; i <= 5; ++i) {
    RawClient client(router.router->port());
    client.send(post_bytes("{}"));
    ASSERT_TRUE(eventually([&] { return n_asked.load() == i; }));
    client.close();
    EXPECT_TRUE(eventually([&] { return n_gone.load() == i; }));
  }
  EXPECT_TRUE(router.nothing_charged(1));
}

TEST(Proxied, ARequestIsSentAsItCameWithoutWhatIsTheConnections) {
  std::mutex mu;
  HttpRequest seen;
  const FakeWorker worker([&](HttpRequest&& request, const ReplyPtr& reply) {
    reply->send(200, {{"X-Quire-Worker", "evil"}, {"Access-Control-Allow-Origin", "*"}}, "ok");
    const std::lock_guard lock(mu);
    seen = std::move(request);
  });
  TestRouter router({&worker});
  RawClient client(router.router->port());
  client.send(
      "POST http://evil.example:1/v1/completions?x=%41 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close, x-hop\r\n"
      "X-Hop: 1\r\nX-Kept: 2\r\nTE: trailers\r\nAuthorization: Bearer k\r\nX-Quire-Worker: evil\r\n"
      "X-Forwarded-For: 203.0.113.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
  const std::string answer = client.read_to_end();
  EXPECT_NE(answer.find("x-quire-worker: 127.0.0.1:"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("evil"), std::string::npos);
  EXPECT_EQ(answer.find("Access-Control"), std::string::npos);
  const std::lock_guard lock(mu);
  EXPECT_EQ(seen.target, "/v1/completions?x=%41");
  EXPECT_EQ(seen.body, "{}");
  EXPECT_EQ(seen.header("x-hop"), nullptr);
  EXPECT_EQ(seen.header("te"), nullptr);
  EXPECT_EQ(seen.header("x-quire-worker"), nullptr);
  EXPECT_EQ(*seen.header("x-kept"), "2");
  EXPECT_EQ(*seen.header("authorization"), "Bearer k");
  EXPECT_EQ(*seen.header("x-forwarded-for"), "203.0.113.1, 127.0.0.1");
  EXPECT_EQ(*seen.header("host"), "127.0.0.1:" + std::to_string(worker.server->port()));
}

TEST(Proxied, ARouterThatIsItsOwnWorkerSaysSo) {
  std::mutex mu;
  std::string through;
  const FakeWorker good([&](HttpRequest&& request, const ReplyPtr& reply) {
    const std::lock_guard lock(mu);
    if (const std::string* routers = request.header("x-quire-router")) through = *routers;
    reply->send(200, {}, "{}");
  });
  TestRouter router({&good});
  const auto ask = [&](const std::string& routers) {
    return router.ask("POST", "/v1/completions", "{}", {{"X-Quire-Router", routers}});
  };
  EXPECT_EQ(router.post("{}").status, 200);
  const std::string id = through;
  EXPECT_EQ(id.size(), 32U);
  EXPECT_EQ(ask("00ff").status, 200);
  EXPECT_EQ(through, "00ff, " + id) << "another router's stays";
  const HttpResponse circle = ask("00ff, " + id + ", 11ff");
  EXPECT_EQ(circle.status, 502);
  EXPECT_NE(circle.body.find("leads back to it"), std::string::npos) << circle.body;
  const HttpResponse far = ask(std::string(kMostRouterBytes + 1, 'x'));
  EXPECT_EQ(far.status, 502);
  EXPECT_NE(far.body.find("the limit is 512"), std::string::npos) << far.body;

  const WorkerSpec self{{"127.0.0.1", router.router->port()}, ""}, other{{"127.0.0.1", good.server->port()}, ""};
  router.router->set_workers({self, other});
  EXPECT_TRUE(eventually([&] { return router.count("\"usable\":true") == 2; }));
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(router.post("{\"user\":\"" + std::to_string(i) + "\"}").status, 200) << "the other one is asked";
  EXPECT_NE(router.count("\"failures_total\":0"), 2) << "and the circle is its worker's failure";
  router.router->set_workers({self});
  EXPECT_EQ(router.post("{}").status, 502);
}

TEST(Proxied, StoppingWaitsForWhatIsUnderWayAndRefusesTheRest) {
  std::mutex mu;
  ReplyPtr held;
  std::atomic<bool> asked{false};
  const FakeWorker worker([&](HttpRequest&&, ReplyPtr reply) {
    const std::lock_guard lock(mu);
    held = std::move(reply);
    asked = true;
  });
  TestRouter router({&worker});
  RawClient client(router.router->port());
  client.send(post_bytes("{}"));
  ASSERT_TRUE(eventually([&] { return asked.load(); }));
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    router.router->stop(kPatienceMs);
    stopped = true;
  });
  EXPECT_TRUE(eventually([&] { return router.client->request({"GET", "/ready", {}, ""})->status == 503; }));
  EXPECT_EQ(router.post("{}").status, 503);
  EXPECT_FALSE(stopped);
  {
    const std::lock_guard lock(mu);
    held->send(200, {}, "late");
  }
  EXPECT_NE(client.read_to_end().find("\r\n\r\nlate"), std::string::npos);
  stopper.join();
}

TEST(Proxied, RequestsThatWaitForAWorkerAreFewAndTheirBodiesAreCounted) {
  constexpr int kN = 4;
  RouteLimits limits;
  limits.n_waiting = kN;
  limits.wait_ms = 600'000;
  TestRouter router({}, limits);
  const auto held = [&] {
    const std::string text = router.metrics.expose(), name = "\nquire_http_received_held_bytes ";
    const size_t at = text.find(name);
    return at == std::string::npos ? int64_t{-1} : static_cast<int64_t>(std::stod(text.substr(at + name.size())));
  };
  const std::string body = R"({"prompt":")" + std::string(1 << 20, 'x') + "\"}";
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kN; ++i) {
    clients.push_back(std::make_unique<RawClient>(router.router->port()));
    clients.back()->send(post_bytes(body));
  }
  EXPECT_TRUE(eventually([&] { return router.count("\"waiting\":4") == 1; }));
  const HttpResponse refused = router.post(body);
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("at most 4 requests (n_waiting) wait for one, each at most "), std::string::npos)
      << refused.body;
  EXPECT_TRUE(eventually([&] { return held() >= kN * ((int64_t{1} << 20) - kFreeBytes); })) << held();
  clients.clear();
  EXPECT_TRUE(eventually([&] { return router.count("\"waiting\":0") == 1 && held() == 0; })) << held();
}

TEST(Proxied, WorkersComeAndGoWhileTheRouterRuns) {
  const auto says = [](const char* word) {
    return [word](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {}, word); };
  };
  const FakeWorker first(says("first")), second(says("second"));
  TestRouter router({&first});
  EXPECT_EQ(router.post("{}").body, "first");
  router.router->set_workers({{{"127.0.0.1", second.server->port()}, ""}});
  EXPECT_EQ(router.post("{}").body, "second");  // it waits until the new one has been asked
  const std::string pages = router.ask("GET", "/metrics").body;
  const auto series = [](const WorkerSpec& of) { return "{worker=\"" + of.name() + "\"} "; };
  EXPECT_NE(pages.find("quire_worker_requests_total" + series({{"127.0.0.1", second.server->port()}, ""}) + "1\n"),
            std::string::npos)
      << pages;
  EXPECT_EQ(pages.find(series({{"127.0.0.1", first.server->port()}, ""})), std::string::npos)
      << "who is gone leaves no series behind";
  router.router->set_workers({});
  EXPECT_EQ(router.count("usable"), 0);
  EXPECT_EQ(router.ask("GET", "/metrics").body.find("quire_worker_"), std::string::npos);
}

}  // namespace
}  // namespace quire
