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
    {
      const std::lock_guard lock(mu_);
      holds_ = false;
      held_.clear();
    }
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
  bool holds_ = true;  // false: what comes late is dropped at once
  FunctionHandler handler_{[this](HttpRequest&& request, ReplyPtr reply) {
    if (request.path != "/hold") return void(reply->send(200, {}, std::move(request.body)));
    const std::lock_guard lock(mu_);
    if (holds_) held_.emplace_back(std::move(request), std::move(reply));
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

// 8 MB in a buffer of 64 KiB, taken at some 10 MB/s with a stall_timeout_ms that is a tenth of the whole: progress buys
// time.
TEST_F(ServerMemory, ALargeAnswerThatIsReadSteadilyIsNotStalled) {
  HttpLimits l = narrow();
  l.out_bytes = 64 << 10;
  l.send_buffer_bytes = 16 << 10;
  l.stall_timeout_ms = 400;
  open(l);
  const std::string whole(8 << 20, 'w');
  FunctionHandler large([&](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {}, whole); });
  ServerOptions o;
  o.limits = l;
  auto other = Server::start(o, large);
  ASSERT_TRUE(other);
  RawClient c((*other)->port(), 16 << 10);
  c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const int64_t begin = test_now_ms();
  size_t n = 0;
  while (n < whole.size()) {
    const std::string part = c.read_some();
    ASSERT_NE(part, "") << "cut after " << n << " bytes";
    n += part.size();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  EXPECT_GT(test_now_ms() - begin, 2 * l.stall_timeout_ms) << "too fast to prove anything";
}

// One client takes a large answer as fast as it comes; what else the thread has to do is not behind all of it.
TEST_F(ServerMemory, ALargeAnswerGivesOthersTheirTurn) {
  ServerOptions o;
  o.limits.send_buffer_bytes = 4 << 20;
  std::atomic<int64_t> unsent{-1};
  FunctionHandler large([&](HttpRequest&&, const ReplyPtr& reply) {
    reply->send(200, {}, std::string(16 << 20, 'w'));
    reply->post([&, reply] { unsent = reply->unsent_bytes(); });  // after this callback, and what it could send
  });
  auto other = Server::start(o, large);
  ASSERT_TRUE(other);
  RawClient c((*other)->port(), 4 << 20);
  c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  size_t n = 0;
  while (n < (16 << 20)) {
    const std::string part = c.read_some();
    ASSERT_NE(part, "");
    n += part.size();
  }
  EXPECT_GE(unsent, (16 << 20) - (512 << 10)) << "a turn sends 256 KiB";
  open(narrow());
}

// Answers for which there is no room beside those that nobody reads are refused, small ones are not, and streams wait.
TEST_F(ServerMemory, UnsentAnswersAreBoundedInAll) {
  HttpLimits l = narrow();
  l.all_out_bytes = 4 * kMiB;
  l.send_buffer_bytes = 16 << 10;
  open(l);
  const auto unsent = [&] { return static_cast<int64_t>(metrics_.gauge("quire_http_unsent_held_bytes", "").value()); };
  const auto take_one = [&] {
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(mu_);
      return !held_.empty();
    }));
    const std::lock_guard lock(mu_);
    const ReplyPtr reply = std::move(held_.back().second);
    held_.clear();
    return reply;
  };
  std::vector<RawClient> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back(server_->port(), 4096);
    clients.back().send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
    take_one()->send(200, {}, std::string(kMiB, 'w'));
  }
  EXPECT_TRUE(eventually([&] { return unsent() > kMiB; }));
  EXPECT_LE(unsent(), 2 * kMiB) << "one address gets half";
  const std::string refused = clients[5].read_some();
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 503 ")) << refused;
  EXPECT_NE(refused.find("4194304 unsent bytes (all_out_bytes)"), std::string::npos) << refused;
  expect_small_ones_are_served();

  RawClient streaming = client();
  streaming.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  const ReplyPtr stream = take_one();
  stream->start_stream(200, {});
  EXPECT_TRUE(stream->write("a small event"));
  EXPECT_FALSE(stream->write(std::string(kMiB, 'x')));
  stream->set_producer([](Reply& r) {
    if (r.write(std::string(kMiB, 'x') + "!")) r.end();
  });
  stream->flush();
  EXPECT_NE(streaming.read_until("a small event"), "");
  clients.clear();
  EXPECT_NE(streaming.read_until("!\r\n").find('!'), std::string::npos) << "once there is room it goes on";
  streaming.close();
  EXPECT_TRUE(eventually([&] { return unsent() == 0; }));
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
