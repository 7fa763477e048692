// What clients can make the server hold, over real sockets: it is counted, bounded in all, and given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/metrics.h"
#include "http/client.h"
#include "http/testing.h"

namespace quire {
namespace {

constexpr int64_t kMiB = 1 << 20;

HttpLimits narrow() {
  HttpLimits l;
  l.body_bytes = kMiB;
  l.all_body_bytes = 4 * kMiB;
  l.idle_timeout_ms = 100'000;
  l.linger_ms = 20;  // makes the tick short
  return l;
}

class ServerMemory : public testing::Test {
 protected:
  void open(const HttpLimits& limits) {
    ServerOptions o;
    o.limits = limits;
    o.metrics = &metrics_;
    auto started = Server::start(o, handler_);
    ASSERT_TRUE(started) << started.error().message;
    server_ = std::move(*started);
  }
  void TearDown() override {
    held_.clear();
    EXPECT_TRUE(received_becomes(0, 0)) << received();
    EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  }
  RawClient client() { return RawClient(server_->port()); }
  // Announces a body and sends a part of it.
  RawClient posting(int64_t announced, int64_t sent) {
    RawClient c = client();
    c.send("POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(announced) + "\r\n\r\n");
    c.send(std::string(static_cast<size_t>(sent), 'x'));
    return c;
  }
  int64_t received() { return static_cast<int64_t>(metrics_.gauge("quire_http_received_held_bytes", "").value()); }
  bool received_becomes(int64_t least, int64_t most) {
    return eventually([&] { return received() >= least && received() <= most; });
  }
  void expect_small_ones_are_served() {
    RawClient c = client();
    c.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2000\r\n\r\n" + std::string(2000, 'y'));
    EXPECT_TRUE(c.read_until("yyy").starts_with("HTTP/1.1 200 "));
  }

  Metrics metrics_;
  std::mutex mu_;
  std::vector<std::pair<HttpRequest, ReplyPtr>> held_;
  FunctionHandler handler_{[this](HttpRequest&& request, ReplyPtr reply) {
    if (request.path != "/hold") return void(reply->send(200, {}, std::move(request.body)));
    const std::lock_guard lock(mu_);
    held_.emplace_back(std::move(request), std::move(reply));
  }};
  std::unique_ptr<Server> server_;
};

TEST_F(ServerMemory, WhatIsAnnouncedTakesNoMemory) {
  open(narrow());
  std::vector<RawClient> clients;
  for (int i = 0; i < 50; ++i) clients.push_back(posting(kMiB, 1));
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 50; }));
  expect_small_ones_are_served();
  EXPECT_TRUE(received_becomes(0, 0)) << received();
}

TEST_F(ServerMemory, BodiesBeyondTheBudgetAreRefusedAndSmallOnesServed) {
  open(narrow());
  std::vector<RawClient> clients;
  std::vector<std::string> answers;
  for (int i = 0; i < 12; ++i) clients.push_back(posting(kMiB, kMiB / 2));
  for (RawClient& c : clients) answers.push_back(c.read_some(500));
  const auto n_refused = std::count_if(answers.begin(), answers.end(), [](const std::string& answer) {
    return answer.starts_with("HTTP/1.1 503 ") && answer.find("Retry-After: 1\r\n") != std::string::npos &&
           answer.find("4194304 bytes (all_body_bytes)") != std::string::npos;
  });
  EXPECT_GE(n_refused, 7);
  EXPECT_LE(n_refused, 11);
  EXPECT_TRUE(received_becomes(kMiB / 2, 2 * kMiB)) << "one address gets half: " << received();
  expect_small_ones_are_served();
  clients.clear();
  EXPECT_TRUE(received_becomes(0, 0)) << received();
  RawClient again = posting(kMiB, kMiB);
  EXPECT_TRUE(received_becomes(kMiB - kFreeBytes, kMiB + 1024)) << received();
}

TEST_F(ServerMemory, ABodyCountsUntilItIsReadNotUntilItHasCome) {
  open(narrow());
  {
    RawClient c = posting(kMiB, kMiB);
    ASSERT_TRUE(eventually([&] {
      const std::lock_guard lock(mu_);
      return held_.size() == 1;
    }));
    EXPECT_TRUE(received_becomes(kMiB - kFreeBytes, kMiB + 1024)) << received();
  }
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  EXPECT_TRUE(received_becomes(kMiB - kFreeBytes, kMiB + 1024)) << "the client left, its request waits: " << received();
}

TEST_F(ServerMemory, PipelinedBytesCountAndWaitForRoom) {
  HttpLimits l = narrow();
  l.body_bytes = 4000;
  l.all_body_bytes = 300'000;
  open(l);
  constexpr int kClients = 12;
  const std::string hold = "GET /hold HTTP/1.1\r\nHost: h\r\n\r\n";
  std::string ahead;
  for (int i = 0; i < 2000; ++i) ahead += "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n";
  std::vector<RawClient> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(client());
    clients.back().send(hold);
    ASSERT_TRUE(eventually([&] {
      const std::lock_guard lock(mu_);
      return held_.size() == clients.size();
    }));
    clients.back().send(ahead);
  }
  EXPECT_TRUE(received_becomes(50'000, 160'000)) << received();
  expect_small_ones_are_served();
  std::vector<std::pair<HttpRequest, ReplyPtr>> held;
  {
    const std::lock_guard lock(mu_);
    held.swap(held_);
  }
  std::vector<std::thread> readers;
  std::atomic<int> n_complete{0};
  for (RawClient& c : clients)
    readers.emplace_back([&] {
      std::string all;
      size_t n = 0, at = 0;
      while (n < 2001) {
        const std::string part = c.read_some();
        if (part.empty()) return;
        all += part;
        for (; (at = all.find("HTTP/1.1 200 ", at)) != std::string::npos; at += 13) ++n;
        at = all.size() - std::min<size_t>(all.size(), 12);
      }
      ++n_complete;
    });
  for (auto& [request, reply] : held) reply->send(200, {}, "");
  held.clear();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(n_complete, kClients) << "what waited for room is answered in the end";
}

TEST_F(ServerMemory, AnIdleConnectionKeepsNoLargeHead) {
  open(narrow());
  std::vector<RawClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(client());
    clients.back().send("GET /echo HTTP/1.1\r\nHost: h\r\nX: " + std::string(15'000, 'x') + "\r\n\r\n");
    EXPECT_NE(clients.back().read_until("\r\n\r\n"), "");
  }
  EXPECT_TRUE(received_becomes(0, 0)) << received();
  for (RawClient& c : clients) c.send("GET /echo HTTP/1.1\r\nHost: h\r\nX: " + std::string(15'000, 'x'));
  EXPECT_TRUE(received_becomes(100'000, 600'000)) << "unfinished heads count: " << received();
}

// 0.9 MB at once, then a byte now and then: what came early buys no time.
TEST_F(ServerMemory, AFastBeginningBuysNoTimeForABody) {
  HttpLimits l = narrow();
  l.body_timeout_ms = 200;
  open(l);
  RawClient c = posting(kMiB, 900'000);
  for (int i = 0; i < 1000; ++i) {
    pollfd answered{c.fd(), POLLIN, 0};
    if (::poll(&answered, 1, 50) == 1) break;
    c.send("x");
    ASSERT_LT(i, 999) << "still waiting for the body";
  }
  EXPECT_TRUE(c.read_to_end().starts_with("HTTP/1.1 408 "));
}

TEST_F(ServerMemory, PipelinedRequestsGiveOthersTheirTurn) {
  open(narrow());
  int n_before = -1, n = 0;  // io thread
  std::atomic<int> seen{0};
  FunctionHandler counting([&](HttpRequest&&, const ReplyPtr& reply) {
    if (++n == 1) reply->post([&] { n_before = n; });
    reply->send(200, {}, "");
    seen = n;
  });
  auto other = Server::start({}, counting);
  ASSERT_TRUE(other);
  std::string all;
  for (int i = 0; i < 2000; ++i) all += "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  RawClient c((*other)->port());
  c.send(all);
  EXPECT_TRUE(eventually([&] { return seen == 2000; }));
  (*other)->stop(0);
  EXPECT_GE(n_before, 1);
  EXPECT_LE(n_before, 16) << "what else there is to do waited for so many requests";
}

TEST(HttpLimits, OfBodiesAndOfAllBodiesMustFitTogether) {
  HttpLimits l;
  EXPECT_TRUE(check_limits(l));
  l.path_body_bytes.push_back({"/big", l.all_body_bytes / 2});
  const Status status = check_limits(l);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("all_body_bytes is 268435456"), std::string::npos);
  FunctionHandler none([](HttpRequest&&, const ReplyPtr&) {});
  ServerOptions o;
  o.limits = l;
  EXPECT_FALSE(Server::start(o, none));
}

}  // namespace
}  // namespace quire
