// Exchanges with other servers over real sockets: what is asked from an io thread of one server, of another or of a
// socket that does what no proper server does.
#include "http/upstream.h"

#include <gtest/gtest.h>
#include <linux/filter.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "base/nanoseconds.h"
#include "http/starved_testing.h"
#include "http/testing.h"

namespace quire {
namespace {

// Whether the other side has closed.
bool hears_end(int fd) {
  pollfd p{fd, POLLIN, 0};
  char byte;
  return ::poll(&p, 1, kPatienceMs) == 1 && ::recv(fd, &byte, 1, 0) <= 0;
}

// What became of an exchange; read by the test's thread.
class Heard final : public UpstreamEvents {
 public:
  void on_head(UpstreamHead&& head) override {
    const std::lock_guard lock(mu_);
    head_ = std::move(head);
  }
  bool on_body(std::string_view bytes) override {
    const std::lock_guard lock(mu_);
    if (full_) {
      ++n_refused_;
      return false;
    }
    body_ += bytes;
    return true;
  }
  void on_end(const UpstreamError* error) override {
    const std::lock_guard lock(mu_);
    ++n_ends_;
    if (error != nullptr) error_ = *error;
  }
  bool ended() {
    const std::lock_guard lock(mu_);
    return n_ends_ > 0;
  }
  template <class F>
  auto look(F f) {
    const std::lock_guard lock(mu_);
    return f(*this);
  }

  std::mutex mu_;
  UpstreamHead head_;
  std::string body_;
  bool full_ = false;
  int n_refused_ = 0, n_ends_ = 0;
  std::optional<UpstreamError> error_;
};

class Upstreams : public testing::Test {
 protected:
  void SetUp() override {
    limits_.connect_ms = kPatienceMs;
    limits_.first_byte_ms = kPatienceMs;
    limits_.stall_ms = kPatienceMs;
    start();
  }
  void start() {
    ServerOptions options;
    options.limits.linger_ms = 20;  // so that its clock ticks often
    server_ = std::move(*Server::start(options, nobody_));
  }
  std::shared_ptr<Heard> ask(int port) {
    const UpstreamRequest get;
    return ask(port, get);
  }
  std::shared_ptr<Heard> ask(int port, UpstreamRequest request) {
    request.to = {"127.0.0.1", port};
    auto heard = std::make_shared<Heard>();
    server_->post([this, request, heard] { last_ = ask_upstream(request, limits_, heard); });
    return heard;
  }
  void on_io(std::function<void()> fn) {
    std::atomic<bool> done{false};
    server_->post([&] {
      fn();
      done = true;
    });
    ASSERT_TRUE(eventually([&] { return done.load(); }));
  }

  UpstreamLimits limits_;
  ManualClock clock_;  // outlives the server that reads it
  FunctionHandler nobody_{[](HttpRequest&&, const ReplyPtr& reply) { reply->send(404, {}, ""); }};
  std::unique_ptr<Server> server_;
  std::shared_ptr<Upstream> last_;  // of the io thread
};

TEST_F(Upstreams, RequestsAndAnswersPassUnchangedOverOneKeptConnection) {
  std::mutex mu;
  std::vector<HttpRequest> seen;
  FunctionHandler echo([&](HttpRequest&& request, const ReplyPtr& reply) {
    reply->send(201, {{"X-Kind", "whole"}, {"Connection", "x-kind"}}, request.body + "!");
    const std::lock_guard lock(mu);
    seen.push_back(std::move(request));
  });
  const auto other = std::move(*Server::start({}, echo));
  const std::string large(3 << 20, 'a');
  for (const std::string& body : {std::string("hello"), large, std::string()}) {
    UpstreamRequest request;
    request.method = "POST";
    request.target = "/x?y=1";
    request.headers = {{"X-Own", "v\r\nEvil: 1"}};
    if (!body.empty()) request.body = std::make_shared<const std::string>(body);
    const auto heard = ask(other->port(), request);
    ASSERT_TRUE(eventually([&] { return heard->ended(); }));
    EXPECT_FALSE(heard->error_) << heard->error_->message;
    EXPECT_EQ(heard->head_.status, 201);
    EXPECT_EQ(heard->body_, body + "!");
  }
  EXPECT_EQ(other->n_connections(), 1);
  const std::lock_guard lock(mu);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[1].body, large);
  EXPECT_EQ(seen[0].target, "/x?y=1");
  EXPECT_EQ(*seen[0].header("x-own"), "v  Evil: 1");
  EXPECT_EQ(seen[0].header("evil"), nullptr);
}

TEST_F(Upstreams, AnAnswerThatCameWhileNobodyListenedIsRead) {
  ServerOptions options;
  options.limits.linger_ms = 20;
  server_ = std::move(*start_server(options, nobody_, &clock_));
  limits_.first_byte_ms = limits_.stall_ms = 100;
  const RawListener listener;
  const auto first = ask(listener.port()), second = ask(listener.port());
  const int a = listener.accept(), b = listener.accept();
  EXPECT_NE(read_from(a, "\r\n\r\n"), "");
  EXPECT_NE(read_from(b, "\r\n\r\n"), "");
  say_to(a, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfi");
  ASSERT_TRUE(eventually([&] { return first->look([](Heard& h) { return h.body_ == "fi"; }); }));
  starve(*server_, clock_, 3600 * kNsPerSecond, [&] {
    say_to(a, "rst");
    say_to(b, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond");
  });
  for (const auto& heard : {first, second}) {
    ASSERT_TRUE(eventually([&] { return heard->ended(); }));
    heard->look([](Heard& h) { EXPECT_FALSE(h.error_) << h.error_->message; });
  }
  EXPECT_EQ(first->body_, "first");
  EXPECT_EQ(second->body_, "second");
  ::close(a);
  ::close(b);
}

TEST_F(Upstreams, AReaderWithoutRoomStopsTheServerAndGoesOnLater) {
  constexpr size_t kBytes = 64 << 20;
  RawListener listener;
  const auto heard = ask(listener.port());
  heard->look([](Heard& h) { return h.full_ = true; });
  const int fd = listener.accept();
  read_from(fd, "\r\n\r\n");
  std::atomic<size_t> n_said{0};
  std::thread writer([&] {
    say_to(fd, "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kBytes) + "\r\n\r\n");
    const std::string piece(64 << 10, 'z');
    while (n_said < kBytes) {
      const ssize_t n = ::send(fd, piece.data(), std::min(piece.size(), kBytes - n_said), MSG_NOSIGNAL);
      if (n <= 0) return;
      n_said += static_cast<size_t>(n);
    }
  });
  EXPECT_TRUE(eventually([&] { return heard->look([](Heard& h) { return h.n_refused_ > 0; }); }));
  size_t before = n_said;  // what the two kernels take goes on for a while, and then no further
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return std::exchange(before, n_said.load()) == n_said.load();
  }));
  EXPECT_LT(n_said.load(), kBytes);
  EXPECT_EQ(heard->look([](Heard& h) { return h.n_refused_; }), 1);
  heard->look([](Heard& h) { return h.full_ = false; });
  on_io([&] { last_->resume(); });
  ASSERT_TRUE(eventually([&] { return heard->ended(); }));
  EXPECT_EQ(heard->body_.size(), kBytes);
  writer.join();
  ::close(fd);
}

TEST_F(Upstreams, CancelClosesAtOnceAndNothingIsHeardAfterIt) {
  RawListener listener;
  const auto heard = ask(listener.port());
  const int fd = listener.accept();
  read_from(fd, "\r\n\r\n");
  say_to(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  ASSERT_TRUE(eventually([&] { return heard->look([](Heard& h) { return h.body_ == "abc"; }); }));
  on_io([&] { last_->cancel(); });
  EXPECT_TRUE(hears_end(fd));
  on_io([&] { last_->cancel(); });
  EXPECT_FALSE(heard->ended());
  ::close(fd);
}

TEST_F(Upstreams, FaultsAreTold) {
  const struct {
    const char* answer;
    UpstreamFault fault;
    const char* words;
  } cases[] = {
      {"", UpstreamFault::cut, "cut before"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour", UpstreamFault::cut, "ended before"},
      {"no http at all\r\n\r\n", UpstreamFault::malformed, "malformed head"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz", UpstreamFault::malformed, "malformed chunk"},
  };
  for (const auto& c : cases) {
    RawListener listener;
    const auto heard = ask(listener.port());
    const int fd = listener.accept();
    read_from(fd, "\r\n\r\n");
    say_to(fd, c.answer);
    ::close(fd);
    ASSERT_TRUE(eventually([&] { return heard->ended(); })) << c.answer;
    ASSERT_TRUE(heard->error_.has_value()) << c.answer;
    EXPECT_EQ(heard->error_->fault, c.fault) << c.answer;
    EXPECT_NE(heard->error_->message.find(c.words), std::string::npos) << heard->error_->message;
  }
}

TEST_F(Upstreams, NobodyThereIsUnreached) {
  int port = 0;
  {
    RawListener gone;
    port = gone.port();
  }
  const auto heard = ask(port);
  ASSERT_TRUE(eventually([&] { return heard->ended(); }));
  EXPECT_EQ(heard->error_->fault, UpstreamFault::unreached);
  UpstreamRequest named;
  named.to = {"no-such-host.invalid", 1};
  const auto lost = std::make_shared<Heard>();
  server_->post([&] { ask_upstream(named, limits_, lost); });
  ASSERT_TRUE(eventually([&] { return lost->ended(); }));
  EXPECT_EQ(lost->error_->fault, UpstreamFault::unreached);
}

TEST_F(Upstreams, TimeLimitsAreNamed) {
  limits_.first_byte_ms = 30;
  RawListener listener;
  const auto silent = ask(listener.port());
  const int first = listener.accept();
  ASSERT_TRUE(eventually([&] { return silent->ended(); }));
  EXPECT_EQ(silent->error_->fault, UpstreamFault::timeout);
  EXPECT_NE(silent->error_->message.find("30 ms (first_byte_ms)"), std::string::npos) << silent->error_->message;
  limits_.first_byte_ms = kPatienceMs;
  limits_.stall_ms = 40;
  const auto stalled = ask(listener.port());
  const int second = listener.accept();
  read_from(second, "\r\n\r\n");
  say_to(second, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour");
  ASSERT_TRUE(eventually([&] { return stalled->ended(); }));
  EXPECT_NE(stalled->error_->message.find("40 ms (stall_ms)"), std::string::npos) << stalled->error_->message;
  EXPECT_EQ(stalled->body_, "four");
  ::close(first);
  ::close(second);
}

// Bytes that come and come keep nothing open for ever, neither in the head nor behind it.
TEST_F(Upstreams, AnAnswerThatDribblesEndsAtATotalTime) {
  limits_.total_ms = 200;
  RawListener listener;
  for (const bool in_head : {true, false}) {
    const auto dribbled = ask(listener.port());
    const int fd = listener.accept();
    read_from(fd, "\r\n\r\n");
    say_to(fd, in_head ? "HTTP/1.1 200 OK\r\nx: " : "HTTP/1.1 200 OK\r\n\r\n");
    ASSERT_TRUE(eventually([&] { return ::send(fd, "x", 1, MSG_NOSIGNAL) != 1 || dribbled->ended(); }));
    ASSERT_TRUE(eventually([&] { return dribbled->ended(); }));
    EXPECT_EQ(dribbled->error_->fault, UpstreamFault::timeout);
    EXPECT_EQ(dribbled->error_->message, "not the whole answer for 200 ms (total_ms)");
    ::close(fd);
  }
}

TEST_F(Upstreams, AKeptConnectionThatWasClosedIsReplacedOnce) {
  RawListener listener;
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  const auto first = ask(listener.port());
  const int kept = listener.accept();
  read_from(kept, "\r\n\r\n");
  say_to(kept, answer);
  ASSERT_TRUE(eventually([&] { return first->ended(); }));
  const auto second = ask(listener.port());
  read_from(kept, "\r\n\r\n");  // the server has read it, and dies of it
  ::close(kept);
  const int fresh = listener.accept();
  read_from(fresh, "\r\n\r\n");
  say_to(fresh, answer);
  ASSERT_TRUE(eventually([&] { return second->ended(); }));
  EXPECT_FALSE(second->error_) << second->error_->message;
  EXPECT_EQ(second->body_, "ok");
  ::close(fresh);
}

TEST_F(Upstreams, ConnectionsThatSpeakUnaskedOrWaitTooLongAreClosed) {
  limits_.kept_ms = 50;
  RawListener listener;
  const auto talker = ask(listener.port());
  int fd = listener.accept();
  read_from(fd, "\r\n\r\n");
  say_to(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return talker->ended(); }));
  EXPECT_TRUE(hears_end(fd));
  ::close(fd);
  const auto waiter = ask(listener.port());
  fd = listener.accept();
  read_from(fd, "\r\n\r\n");
  say_to(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  ASSERT_TRUE(eventually([&] { return waiter->ended(); }));
  EXPECT_TRUE(hears_end(fd));
  ::close(fd);
}

TEST_F(Upstreams, StoppingTheServerEndsExchangesWithoutAWord) {
  RawListener listener;
  const auto heard = ask(listener.port());
  const int fd = listener.accept();
  read_from(fd, "\r\n\r\n");
  server_->stop(0);
  EXPECT_TRUE(hears_end(fd));
  EXPECT_FALSE(heard->ended());
  last_ = nullptr;
  ::close(fd);
}

// The clock of an io thread stands still from stop() on: an exchange that began behind it would hold it up for ever.
TEST_F(Upstreams, WhatBeginsBehindAStopIsNotWaitedFor) {
  RawListener listener;
  std::atomic<bool> goes_on{false}, stopped{false};
  server_->post([&] {
    while (!goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::thread stopper([&] {
    server_->stop(0);
    stopped = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until stop() stands behind what holds the thread
  const auto heard = ask(listener.port());
  goes_on = true;
  EXPECT_TRUE(eventually([&] { return stopped.load(); }, 5'000));
  EXPECT_FALSE(heard->ended());
  if (!stopped) ::close(listener.accept());  // so that the test ends
  stopper.join();
  last_ = nullptr;
}

TEST_F(Upstreams, WhereNoneIsKeptEachHasAConnectionOfItsOwn) {
  limits_.n_kept = 0;
  RawListener listener;
  for (int i = 0; i < 3; ++i) {
    const auto heard = ask(listener.port());
    const int fd = listener.accept();
    read_from(fd, "\r\n\r\n");
    say_to(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ASSERT_TRUE(eventually([&] { return heard->ended(); }));
    EXPECT_FALSE(heard->error_);
    EXPECT_TRUE(hears_end(fd));
    ::close(fd);
  }
}

// From the filter on, the server's kernel drops whatever comes for this connection, as a machine without power does.
TEST_F(Upstreams, AMachineThatGivesNoSignOfLifeIsGivenUp) {
  limits_.dead_ms = 1'000;
  RawListener listener;
  const auto heard = ask(listener.port());
  const int fd = listener.accept();
  read_from(fd, "\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(1'500));
  EXPECT_FALSE(heard->ended());  // it says nothing, but lives
  sock_filter drop_all{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop_all};
  ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  const int64_t start = test_now_ms();
  ASSERT_TRUE(eventually([&] { return heard->ended(); }));
  EXPECT_LT(test_now_ms() - start, 10'000);
  ASSERT_TRUE(heard->error_);
  EXPECT_EQ(heard->error_->fault, UpstreamFault::cut);
  ::close(fd);
}

TEST_F(Upstreams, WhatTheAnswersConnectionNamesEndsHereHoweverOftenItIsSaid) {
  RawListener listener;
  const auto heard = ask(listener.port());
  const int fd = listener.accept();
  read_from(fd, "\r\n\r\n");
  say_to(fd,
         "HTTP/1.1 200 OK\r\nConnection: x-one\r\nX-One: 1\r\nX-Two: 2\r\nConnection: keep-alive, X-Two\r\n"
         "Keep-Alive: timeout=5\r\nProxy-Authentication-Info: p\r\nUpgrade: h2c\r\nTrailer: X-T\r\nX-Kept: 3\r\n"
         "Content-Length: 2\r\n\r\nok");
  ASSERT_TRUE(eventually([&] { return heard->ended(); }));
  std::string names;
  for (const HttpHeader& h : heard->head_.headers) names += h.name + " ";
  EXPECT_EQ(names, "x-kept content-length ");
  ::close(fd);
}

TEST(HopFields, AreThoseOfTheConnectionAndThoseItNames) {
  EXPECT_TRUE(is_hop_field("transfer-encoding", ""));
  EXPECT_TRUE(is_hop_field("x-mine", "close, X-Mine"));
  EXPECT_TRUE(is_hop_field("proxy-authentication-info", ""));
  EXPECT_FALSE(is_hop_field("authorization", "close"));
}

}  // namespace
}  // namespace quire
