// A server that gets no processor for longer than its timeouts, by a clock that the test moves: who spoke in time is
// answered, although nobody listened then.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/nanoseconds.h"
#include "http/starved_testing.h"
#include "http/testing.h"
#include "http/tls_testing.h"

namespace quire {
namespace {

constexpr int64_t kFarTooLong = 3600 * kNsPerSecond;
constexpr int kTimeoutMs = 100;
constexpr size_t kLarge = 512 << 10;
const std::string kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const std::string kPost = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n";

// The clock ticks every 5 ms, of which twice as much counts at most.
HttpLimits short_times() {
  HttpLimits l;
  l.header_timeout_ms = l.body_timeout_ms = l.idle_timeout_ms = l.stall_timeout_ms = l.write_timeout_ms = kTimeoutMs;
  l.linger_ms = 20;
  l.send_buffer_bytes = 4096;
  l.out_bytes = 64 << 10;
  return l;
}

class ServerStarved : public testing::Test {
 protected:
  void open(bool tls = false) {
    ServerOptions o;
    o.limits = short_times();
    if (tls) {
      ASSERT_TRUE(certificate_.made);
      o.tls_certificate = certificate_.certificate;
      o.tls_key = certificate_.key;
    }
    auto started = start_server(o, handler_, &clock_);
    ASSERT_TRUE(started);
    server_ = std::move(*started);
  }
  // All that was pushed to the io thread so far is done.
  void settle() {
    const auto done = std::make_shared<std::promise<void>>();
    server_->post([done] { done->set_value(); });
    done->get_future().wait();
  }
  void starve(const std::function<void()>& meanwhile) {
    settle();
    quire::starve(*server_, clock_, kFarTooLong, meanwhile);
  }
  // Moves the clock in steps that the io thread sees, until it holds.
  template <class F>
  bool in_time(F condition) {
    return eventually([&] {
      server_->post([this] { clock_.advance_ns(kNsPerMs); });
      return condition();
    });
  }
  static bool has_something(const RawClient& client) {
    pollfd p{client.fd(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
  }

  ManualClock clock_;  // of the io thread, once it runs
  TestCertificate certificate_;
  std::function<void()> on_request_ = [] {};
  JudgingHandler handler_{[this](const HttpRequest& head) {
    return Verdict{[this](HttpRequest&& request, const ReplyPtr& reply) {
                     on_request_();
                     reply->send(200, {}, request.path == "/large" ? std::string(kLarge, 'x') : "fine.");
                   },
                   head.path != "/refused"};
  }};
  std::unique_ptr<Server> server_;
};

TEST_F(ServerStarved, WhatWasSaidMeanwhileIsAnswered) {
  open();
  RawClient silent(server_->port()), head(server_->port()), body(server_->port()), kept(server_->port());
  head.send(kGet.substr(0, 20));
  body.send(kPost + "12345");
  kept.send(kGet);
  EXPECT_NE(kept.read_until("fine."), "");
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 4; }));
  starve([&] {
    silent.send(kGet);
    head.send(kGet.substr(20));
    body.send("67890");
    kept.send(kGet);
  });
  for (RawClient* client : {&silent, &head, &body, &kept})
    EXPECT_TRUE(client->read_until("fine.").starts_with("HTTP/1.1 200 "));
}

TEST_F(ServerStarved, HandshakesGoOnWhereTheyWere) {
  open(true);
  TlsClient silent(server_->port()), greeting(server_->port()), ready(server_->port()), asking(server_->port());
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 4; }));
  greeting.socket.send(greeting.hello());
  ASSERT_TRUE(eventually([&] { return has_something(greeting.socket); }));
  ASSERT_TRUE(ready.handshake());
  ASSERT_TRUE(asking.handshake());
  asking.say(kGet.substr(0, 20));
  starve([&] {
    silent.socket.send(silent.hello());
    EXPECT_TRUE(greeting.handshake());
    greeting.say(kGet);
    ready.say(kGet);
    asking.say(kGet.substr(20));
  });
  ASSERT_TRUE(silent.handshake());
  silent.say(kGet);
  for (TlsClient* client : {&silent, &greeting, &ready, &asking})
    EXPECT_TRUE(client->hear("fine.").starts_with("HTTP/1.1 200 "));
}

// Many are before it, and its hello waits for its turn: that is not its own time either.
TEST_F(ServerStarved, WaitingForATurnIsNotTheClientsTime) {
  open(true);
  std::vector<std::unique_ptr<TlsClient>> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(std::make_unique<TlsClient>(server_->port()));
    ASSERT_TRUE(crowd.back()->handshake());
  }
  TlsClient last(server_->port());
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 101; }));
  settle();
  on_request_ = [this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(6));  // in a round of turns there is a tick
    clock_.advance_ns(20 * kNsPerMs);
  };
  starve([&] {
    for (const auto& client : crowd) client->say(kGet);
    last.socket.send(last.hello());
  });
  ASSERT_TRUE(last.handshake());
  last.say(kGet);
  EXPECT_TRUE(last.hear("fine.").starts_with("HTTP/1.1 200 "));
}

TEST_F(ServerStarved, WhoReadMeanwhileGetsTheRest) {
  open();
  RawClient client(server_->port(), 4096);
  client.send("GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  std::string all = client.read_some();
  starve([&] {
    while (has_something(client)) all += client.read_some();
  });
  all += client.read_to_end();
  EXPECT_FALSE(client.timed_out());
  EXPECT_EQ(all.size() - all.find("\r\n\r\n") - 4, kLarge);
}

// Closing with bytes unread is a reset, which meets a client that still sends the body of what was refused.
TEST_F(ServerStarved, WhoIsRefusedMaySendItsBodyToTheEnd) {
  open();
  RawClient client(server_->port());
  client.send("POST /refused HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n");
  const std::string answer = client.read_until("fine.");
  EXPECT_NE(answer, "");
  starve([&] { client.send(std::string(20'000, 'x')); });
  for (int i = 0; i < 20; ++i) {
    settle();
    EXPECT_TRUE(client.send(std::string(1000, 'x')));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST_F(ServerStarved, WhoIsRefusedAndSendsForEverIsCut) {
  open();
  RawClient client(server_->port());
  client.send("POST /refused HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string more(64 << 10, 'x');
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 1; }));
  EXPECT_TRUE(in_time([&] {
    client.send_what_fits(more);
    return server_->n_connections() == 0;
  }));
}

TEST_F(ServerStarved, WhoSaysNothingIsStillCut) {
  open();
  RawClient silent(server_->port()), head(server_->port()), dribbles(server_->port());
  head.send("GET /");
  dribbles.send("GET /");
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 3; }));
  EXPECT_TRUE(in_time([&] {
    dribbles.send_what_fits("x");
    return server_->n_connections() == 0;
  }));
  EXPECT_EQ(silent.read_to_end(), "");
  for (RawClient* client : {&head, &dribbles}) EXPECT_TRUE(client->read_to_end().starts_with("HTTP/1.1 408 "));
}

// A request that came before the server was told to stop.
TEST_F(ServerStarved, WhatIsUnreadWhenItStopsIsAnswered) {
  open();
  RawClient idle(server_->port()), asks(server_->port());
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 2; }));
  std::thread stop;
  starve([&] {
    asks.send(kGet);
    stop = std::thread([&] { server_->stop(kPatienceMs); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // by then it was told, most likely
  });
  EXPECT_EQ(idle.read_to_end(), "");
  const std::string answer = asks.read_to_end();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  asks.close();
  stop.join();
}

}  // namespace
}  // namespace quire
