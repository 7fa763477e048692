// Requests and replies over real loopback sockets: what a client sees in ordinary use.
#include "http/server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <future>
#include <mutex>

#include "base/metrics.h"
#include "http/client.h"
#include "http/router.h"
#include "http/testing.h"

namespace quire {
namespace {

struct Running {
  explicit Running(FunctionHandler::Function fn, ServerOptions options = {}) : handler(std::move(fn)) {
    auto started = Server::start(options, handler);
    EXPECT_TRUE(started) << started.error().message;
    server = std::move(*started);
  }
  RawClient raw() { return RawClient(server->port()); }
  HttpClient client() {
    ClientOptions o;
    o.port = server->port();
    o.timeout_ms = 5000;
    return HttpClient(o);
  }
  FunctionHandler handler;
  std::unique_ptr<Server> server;
};

void echo(HttpRequest&& request, ReplyPtr reply) {
  reply->send(200, {{"Content-Type", "text/plain"}}, request.method + " " + request.path + " " + request.body);
}

TEST(Server, AnswersOnAKeptConnection) {
  Running r(echo);
  HttpClient c = r.client();
  for (int i = 0; i < 3; ++i) {
    const auto response =
        c.request({"POST", "/x%20y", {{"X", "1"}}, std::string(static_cast<size_t>(i) * 100'000, 'b')});
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "POST /x y " + std::string(static_cast<size_t>(i) * 100'000, 'b'));
    EXPECT_NE(response->header("date"), nullptr);
    EXPECT_TRUE(c.connected());
  }
  EXPECT_EQ(r.server->n_connections(), 1);
}

TEST(Server, ReadsARequestSplitAtEveryByte) {
  Running r(echo);
  const std::string request = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  RawClient c = r.raw();
  for (size_t at = 1; at < request.size(); ++at) {
    ASSERT_TRUE(c.send(request.substr(0, at)));
    ASSERT_TRUE(c.send(request.substr(at)));
    ASSERT_NE(c.read_until("POST /a abc").find("200 OK"), std::string::npos) << at;
  }
}

TEST(Server, AnswersFromAnotherThread) {
  std::vector<std::thread> threads;
  {
    Running r([&](HttpRequest&& request, ReplyPtr reply) {
      threads.emplace_back([reply = std::move(reply), path = request.path]() mutable {
        reply->send(200, {}, path);
        reply = nullptr;
      });
    });
    HttpClient c = r.client();
    EXPECT_EQ(c.request({"GET", "/a", {}, ""})->body, "/a");
    EXPECT_EQ(c.request({"GET", "/b", {}, ""})->body, "/b");
  }
  for (auto& t : threads) t.join();
}

TEST(Server, PipelinedRequestsAreAnsweredInOrder) {
  std::mutex mu;
  std::vector<std::pair<std::string, ReplyPtr>> held;  // every third request is answered later, by the test
  Running r([&](HttpRequest&& request, ReplyPtr reply) {
    if (request.path.back() != '3') return echo(std::move(request), std::move(reply));
    std::lock_guard lock(mu);
    held.emplace_back(request.path, std::move(reply));
  });
  std::string all, want;
  for (int i = 0; i < 10'000; ++i) {
    all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n";
    want += "/" + std::to_string(i) + ";";
  }
  RawClient c = r.raw();
  std::thread sender([&] { EXPECT_TRUE(c.send(all)); });
  std::atomic<bool> done{false};
  std::thread answerer([&] {
    while (!done) {
      std::vector<std::pair<std::string, ReplyPtr>> now;
      {
        std::lock_guard lock(mu);
        now.swap(held);
      }
      for (auto& [path, reply] : now) reply->send(200, {}, "GET " + path + " ");
      std::this_thread::yield();
    }
  });
  const std::string answers = c.read_until("GET /9999 ");
  done = true;
  sender.join();
  answerer.join();
  std::string got;
  for (size_t at = answers.find("GET /"); at != std::string::npos; at = answers.find("GET /", at + 1))
    got += answers.substr(at + 4, answers.find(' ', at + 4) - at - 4) + ";";
  EXPECT_EQ(got, want);
}

TEST(Server, StreamsChunkedOr10ByClose) {
  Running r([](HttpRequest&&, ReplyPtr reply) {
    reply->start_stream(200, sse_headers());
    reply->write("data: a\n\n");
    reply->post([reply] {  // on the io thread, after the first part went out
      reply->write("data: b\n\n");
      reply->end();
    });
  });
  HttpClient c = r.client();
  std::string got;
  const auto response = c.events({}, [&](SseEvent&& e, int64_t) {
    got += e.data;
    return true;
  });
  ASSERT_TRUE(response);
  EXPECT_EQ(got, "ab");
  EXPECT_EQ(*response->header("transfer-encoding"), "chunked");
  EXPECT_TRUE(c.connected());

  RawClient old = r.raw();
  old.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string all = old.read_to_end();
  EXPECT_FALSE(old.timed_out());
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_NE(all.find("Connection: close"), std::string::npos);
  EXPECT_EQ(all.substr(all.find("\r\n\r\n") + 4), "data: a\n\ndata: b\n\n");
}

TEST(Server, HeadHasNoBody) {
  Running r([](HttpRequest&& request, ReplyPtr reply) {
    if (request.path == "/s") {
      reply->start_stream(200, {});
      reply->write("streamed");
      reply->end();
    } else {
      reply->send(200, {}, "sent");
    }
  });
  RawClient c = r.raw();
  c.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\nHEAD /s HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string all = c.read_until("sent");
  EXPECT_EQ(all.find("streamed"), std::string::npos);
  EXPECT_NE(all.find("Content-Length: 4\r\n\r\nHTTP/1.1 200"), std::string::npos) << all;
}

TEST(Server, ContinuesOnlyWhenTheBodyIsWelcome) {
  ServerOptions o;
  o.limits.body_bytes = 10;
  Running r(echo, o);
  RawClient c = r.raw();
  c.send("POST /c HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(c.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  c.send("hi");
  EXPECT_NE(c.read_until("hi").find("200 OK"), std::string::npos);
  RawClient large = r.raw();
  large.send("POST /c HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
  EXPECT_EQ(large.read_to_end().substr(0, 12), "HTTP/1.1 413");
}

TEST(Server, FirstAnswerWinsAndNothingFollows) {
  Running r([](HttpRequest&&, ReplyPtr reply) {
    EXPECT_FALSE(reply->write("too early"));
    EXPECT_TRUE(reply->send(200, {}, "one"));
    EXPECT_FALSE(reply->send(500, {}, "two"));
    EXPECT_FALSE(reply->start_stream(200, {}));
    reply->end();
  });
  HttpClient c = r.client();
  EXPECT_EQ(c.request({})->body, "one");
  EXPECT_EQ(c.request({})->body, "one");
}

TEST(Server, ADroppedRequestIsA500AndADroppedStreamIsCut) {
  Running r([](HttpRequest&& request, ReplyPtr reply) {
    if (request.path == "/s") {
      reply->start_stream(200, {});
      reply->write("part");
    }
    if (request.path == "/throw") throw std::runtime_error("secret");
  });
  HttpClient c = r.client();
  EXPECT_EQ(c.request({})->status, 500);
  const auto thrown = c.request({"GET", "/throw", {}, ""});
  EXPECT_EQ(thrown->status, 500);
  EXPECT_EQ(thrown->body.find("secret"), std::string::npos);
  const auto cut = c.request({"GET", "/s", {}, ""});
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::io);
}

TEST(Server, OnCloseFiresOnceEvenWhenSetLate) {
  std::promise<CloseReason> early, late;
  std::thread later;
  {
    Running r([&](HttpRequest&&, ReplyPtr reply) {
      reply->on_close([&](CloseReason reason) { early.set_value(reason); });
      reply->send(200, {}, "x");
      later = std::thread([&late, reply] {
        while (!reply->closed()) std::this_thread::yield();
        reply->on_close([&](CloseReason reason) { late.set_value(reason); });
      });
    });
    EXPECT_TRUE(r.client().request({}));
    EXPECT_EQ(early.get_future().get(), CloseReason::finished);
    EXPECT_EQ(late.get_future().get(), CloseReason::finished);
    later.join();
  }
}

TEST(Server, PortInUseNamesHostAndPort) {
  Running r(echo);
  ServerOptions o;
  o.port = r.server->port();
  const auto second = Server::start(o, r.handler);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::io);
  EXPECT_EQ(second.error().message, "cannot listen on 127.0.0.1:" + std::to_string(o.port) + ": the port is in use");
  o.port = 70000;
  EXPECT_EQ(Server::start(o, r.handler).error().code, Code::invalid);
  o.host = "no.such.host.invalid";
  o.port = 0;
  EXPECT_EQ(Server::start(o, r.handler).error().code, Code::io);
}

TEST(Server, PortIsFreeAgainAfterStop) {
  auto first = std::make_unique<Running>(echo);
  ServerOptions o;
  o.port = first->server->port();
  EXPECT_EQ(first->server->url(), "http://127.0.0.1:" + std::to_string(o.port));
  EXPECT_TRUE(first->client().request({}));
  first->server->stop(1000);
  first = nullptr;
  Running second(echo, o);
  EXPECT_TRUE(second.client().request({}));
}

TEST(Server, RouterAnswers404And405AndOptions) {
  Router router;
  router.answer("GET", "/health", [](HttpRequest&&, ReplyPtr reply) { reply->send(200, {}, "ok"); });
  router.answer("POST", "/v1/x", [](HttpRequest&&, ReplyPtr reply) { reply->send(200, {}, "x"); });
  router.answer("GET", "/v1/models/*",
                [](HttpRequest&& q, ReplyPtr reply) { reply->send(200, {}, q.path.substr(11)); });
  router.answer("GET", "/*", [](HttpRequest&&, ReplyPtr reply) { reply->send(200, {}, "page"); });
  auto server = Server::start({}, router);
  ASSERT_TRUE(server);
  ClientOptions o;
  o.port = (*server)->port();
  HttpClient c(o);
  const auto get = [&](const char* method, const char* path) { return *c.request({method, path, {}, ""}); };
  EXPECT_EQ(get("GET", "/health").body, "ok");
  EXPECT_EQ(get("HEAD", "/health").status, 200);
  EXPECT_EQ(get("GET", "/v1/models/org%2Fname").body, "org/name");
  EXPECT_EQ(get("GET", "/other").body, "page");
  EXPECT_EQ(get("GET", "/").status, 404);
  EXPECT_TRUE(get("POST", "/other").body.starts_with("{\"error\":{"));
  EXPECT_TRUE(get("POST", "/v1/messages").body.starts_with("{\"type\":\"error\","));
  EXPECT_TRUE(get("POST", "/api/other").body.starts_with("{\"error\":\""));
  const HttpResponse wrong = get("GET", "/v1/x");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(*wrong.header("allow"), "OPTIONS, POST");
  EXPECT_EQ(get("BREW", "/health").status, 405);
  const HttpResponse options = get("OPTIONS", "/health");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(*options.header("allow"), "OPTIONS, GET, HEAD");
  EXPECT_EQ(get("OPTIONS", "*").status, 204);
}

TEST(Server, CountsWhatItDoes) {
  Metrics metrics;
  ServerOptions o;
  o.metrics = &metrics;
  {
    Running r(echo, o);
    EXPECT_TRUE(r.client().request({}));
    RawClient bad = r.raw();
    bad.send("nonsense\r\n\r\n");
    EXPECT_NE(bad.read_to_end(), "");
    bad.close();
    r.server->stop(1000);
  }
  const std::string text = metrics.expose();
  for (const char* line :
       {"quire_http_connections 0\n", "quire_http_connections_total 2\n", "quire_http_requests_total 1\n",
        "quire_http_responses_total{class=\"2xx\"} 1\n", "quire_http_responses_total{class=\"4xx\"} 1\n",
        "quire_http_rejected_total{status=\"400\"} 1\n", "quire_http_replies_closed_total{reason=\"finished\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(Server, StopDrainsRunningRepliesAndClosesIdleOnes) {
  std::promise<ReplyPtr> taken;
  Running r([&](HttpRequest&&, ReplyPtr reply) { taken.set_value(std::move(reply)); });
  RawClient idle = r.raw();
  ASSERT_TRUE(eventually([&] { return r.server->n_connections() == 1; }));
  RawClient busy = r.raw();
  busy.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const ReplyPtr reply = taken.get_future().get();
  std::thread stopper([&] { r.server->stop(5000); });
  EXPECT_EQ(idle.read_some(), "");
  EXPECT_FALSE(idle.timed_out());
  reply->send(200, {}, "drained");
  const std::string answer = busy.read_to_end();
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  EXPECT_NE(answer.find("drained"), std::string::npos);
  busy.close();
  stopper.join();
}

TEST(Server, ASecondStopCutsTheFirstShort) {
  std::promise<ReplyPtr> taken;
  std::promise<CloseReason> closed;
  Running r([&](HttpRequest&&, ReplyPtr reply) {
    reply->on_close([&](CloseReason reason) { closed.set_value(reason); });
    taken.set_value(std::move(reply));
  });
  RawClient busy = r.raw();
  busy.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const ReplyPtr reply = taken.get_future().get();
  const int64_t begin = test_now_ms();
  std::thread stopper([&] { r.server->stop(60'000); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  r.server->stop(0);
  stopper.join();
  EXPECT_LT(test_now_ms() - begin, 30'000);
  EXPECT_EQ(closed.get_future().get(), CloseReason::shutdown);
  EXPECT_TRUE(reply->closed());
  EXPECT_FALSE(reply->send(200, {}, "late"));  // also after the io threads are gone
  reply->notify();
  r.server->flush();
}

TEST(Server, RunsOnSeveralIoThreads) {
  ServerOptions o;
  o.n_io_threads = 3;
  std::mutex mu;
  std::vector<std::thread::id> seen;
  Running r(
      [&](HttpRequest&&, ReplyPtr reply) {
        {
          std::lock_guard lock(mu);
          if (std::find(seen.begin(), seen.end(), std::this_thread::get_id()) == seen.end())
            seen.push_back(std::this_thread::get_id());
        }
        reply->send(200, {}, "x");
      },
      o);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 9; ++i) {
    clients.push_back(r.client());
    ASSERT_TRUE(clients.back().request({}));
  }
  const std::lock_guard lock(mu);
  EXPECT_EQ(seen.size(), 3u);  // connections go to the thread with the fewest
}

}  // namespace
}  // namespace quire
