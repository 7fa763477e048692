// Hostile and broken clients: every limit over real sockets, with short timeouts. After each case a bystander on the
// same server must be served as if nothing had happened.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <atomic>

#include "base/json.h"
#include "base/sanitized.h"
#include "http/client.h"
#include "http/testing.h"

namespace quire {
namespace {

HttpLimits tight() {
  HttpLimits l;
  l.header_timeout_ms = 60;
  l.body_timeout_ms = 60;
  l.body_bytes_per_s = 10'000;
  l.idle_timeout_ms = 150;
  l.linger_ms = 100;
  return l;
}

// Sizes are what is tested: no clock may answer first on a busy machine.
HttpLimits small_bodies() {
  HttpLimits l;
  l.linger_ms = 100;
  l.body_bytes = 1000;
  return l;
}

class ServerLimits : public testing::Test {
 protected:
  void open(const HttpLimits& limits, int n_io_threads = 1) {
    ServerOptions o;
    o.limits = limits;
    o.n_io_threads = n_io_threads;
    auto started = Server::start(o, handler_);
    ASSERT_TRUE(started);
    server_ = std::move(*started);
    ClientOptions c;
    c.port = server_->port();
    c.timeout_ms = 5000;
    bystander_ = std::make_unique<HttpClient>(c);
  }
  void TearDown() override {
    if (server_ == nullptr) return;  // skipped
    const auto response = bystander_->request({"POST", "/by", {}, "still here"});
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->body, "still here");
    EXPECT_EQ(n_handled_, n_expected_ + 1) << "a refused request reached the handler";
    bystander_->close();
    EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  }
  // Under limits of three connections: the bystander's and two more stay, the fourth is refused, the places come back.
  void expect_fourth_refused(HttpLimits limits, int status) {
    limits.idle_timeout_ms = 5000;
    open(limits);
    {
      ASSERT_TRUE(bystander_->connect());
      std::vector<RawClient> held;
      held.reserve(2);
      for (int i = 0; i < 2; ++i) held.emplace_back(server_->port());
      ASSERT_TRUE(eventually([&] { return server_->n_connections() == 3; }));
      RawClient over(server_->port());
      expect_error(over, status);
    }
    EXPECT_TRUE(eventually([&] { return server_->n_connections() == 1; }));
  }
  // Sends, and checks that the whole answer is this status with an OpenAI error object, then the end.
  void expect_refusal(std::string_view bytes, int status) {
    RawClient c(server_->port());
    c.send(bytes);
    expect_error(c, status);
  }
  void expect_error(RawClient& c, int status) {
    const std::string answer = c.read_to_end();
    EXPECT_FALSE(c.timed_out());
    EXPECT_EQ(answer.substr(0, 13), "HTTP/1.1 " + std::to_string(status) + " ");
    const size_t body = answer.find("\r\n\r\n");
    ASSERT_NE(body, std::string::npos) << answer;
    const auto json = Json::parse(answer.substr(body + 4));
    ASSERT_TRUE(json) << answer;
    const Json* error = json->find("error");
    ASSERT_NE(error, nullptr);
    EXPECT_NE(error->find("message")->as_string(), nullptr);
    EXPECT_NE(error->find("code")->as_string(), nullptr);
  }

  std::atomic<int> n_handled_{0};
  int n_expected_ = 0;
  FunctionHandler handler_{[this](HttpRequest&& request, ReplyPtr reply) {
    ++n_handled_;
    reply->send(200, {}, std::move(request.body));
  }};
  std::unique_ptr<Server> server_;
  std::unique_ptr<HttpClient> bystander_;
};

TEST_F(ServerLimits, MalformedRequestsAreRefusedWithAnErrorObject) {
  open(small_bodies());
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  expect_refusal("\x16\x03\x01\x02\x01\x01", 400);          // TLS on a plain port
  expect_refusal("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);  // HTTP/2 preface
  expect_refusal("GET /..%2f..%2fetc/passwd HTTP/1.1\r\nHost: h\r\n\r\n", 400);
  expect_refusal("GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n", 400);
  expect_refusal("GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\nHost: h\r\n\r\n", 414);
  expect_refusal("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(100'000, 'x'), 431);
  std::string many = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 1000; ++i) many += "A: b\r\n";
  expect_refusal(many + "\r\n", 431);
  expect_refusal(
      post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n", 400);
  expect_refusal(post + "Content-Length: 5\r\nContent-Length: 0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n", 400);
  expect_refusal(post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", 400);
  expect_refusal(post + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", 415);
  expect_refusal(post + "Content-Length: 1001\r\n\r\n", 413);
}

TEST_F(ServerLimits, BodyOverTheLimitIsAnsweredWhileItIsStillComing) {
  open(small_bodies());
  std::string chunks = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 300; ++i) chunks += "400\r\n" + std::string(1024, 'x') + "\r\n";
  expect_refusal(chunks, 413);
  expect_refusal("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n" + std::string(300'000, 'x'), 413);
}

TEST_F(ServerLimits, SlowHeadTimesOut) {
  open(tight());
  RawClient c(server_->port());
  c.send("GET /");
  for (int i = 0; i < 500; ++i) {  // ten seconds of one byte every 20 ms: that does not buy time
    pollfd answered{c.fd(), POLLIN, 0};
    if (::poll(&answered, 1, 20) == 1) break;
    c.send("x");
    ASSERT_LT(i, 499) << "still waiting for the head";
  }
  expect_error(c, 408);
}

TEST_F(ServerLimits, StalledBodyTimesOut) {
  open(tight());
  RawClient c(server_->port());
  c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
  expect_error(c, 408);
}

TEST_F(ServerLimits, SlowBodyTimesOutAlthoughBytesKeepComing) {
  open(tight());
  RawClient c(server_->port());
  c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 10; ++i) {  // 500 bytes a second where 10 000 are asked for
    c.send("0123456789");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  expect_error(c, 408);
}

TEST_F(ServerLimits, IdleConnectionsAreClosedQuietly) {
  open(tight());
  RawClient fresh(server_->port()), used(server_->port());
  used.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  n_expected_ = 1;
  EXPECT_NE(used.read_some(), "");
  EXPECT_EQ(fresh.read_to_end(2000), "");
  EXPECT_EQ(used.read_to_end(2000), "");
  EXPECT_FALSE(fresh.timed_out() || used.timed_out());
}

TEST_F(ServerLimits, CutRequestsReachNobody) {
  open(tight());
  const std::string whole = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde";
  for (size_t at = 0; at < whole.size(); ++at) {
    RawClient c(server_->port());
    c.send(whole.substr(0, at));
    if (at % 2 == 0)
      c.half_close();
    else
      c.reset();
    if (c.fd() >= 0) {
      EXPECT_EQ(c.read_to_end(), "");
    }
  }
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
}

TEST_F(ServerLimits, ConnectionsOverTheLimitGet503) {
  HttpLimits l = tight();
  l.n_connections = 3;
  expect_fourth_refused(l, 503);
}

TEST_F(ServerLimits, ConnectionsOfOneAddressOverItsLimitGet429) {
  HttpLimits l = tight();
  l.n_connections_per_address = 3;
  expect_fourth_refused(l, 429);
  RawClient again(server_->port());
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 2; })) << "places come back";
}

// The server's accepts run out of descriptors; clients wait in the backlog and are served once some are free.
TEST_F(ServerLimits, RunningOutOfDescriptorsBacksOffAndRecovers) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer needs descriptors itself";
  HttpLimits l = tight();
  l.idle_timeout_ms = 5000;
  open(l);
  ASSERT_TRUE(bystander_->connect());
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 1; }));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  RawClient waiting(server_->port());  // its descriptor is the last one allowed
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 2; }));
  rlimit few = before;
  std::vector<RawClient> clients;
  clients.emplace_back(server_->port());
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 3; }));
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  few.rlim_cur = static_cast<rlim_t>(next) + 1;  // one more for the next client, none for its server side
  ::close(next);
  setrlimit(RLIMIT_NOFILE, &few);
  clients.emplace_back(server_->port());
  EXPECT_TRUE(clients.back().connected());
  clients.back().send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nlate");
  n_expected_ = 1;
  EXPECT_EQ(clients.back().read_some(300), "");
  EXPECT_EQ(server_->n_connections(), 3);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(clients.back().read_until("late").find("200 OK"), std::string::npos);
}

}  // namespace
}  // namespace quire
