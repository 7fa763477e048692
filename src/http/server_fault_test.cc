// Every allocation and every call of a socket on an io thread fails once, in requests of every kind: that connection
// ends, with a 503 where nothing was said yet; the next one is answered; nothing is left behind.
#include <gtest/gtest.h>

#include <atomic>

#include "base/metrics.h"
#include "http/faults_testing.h"
#include "http/testing.h"
#include "http/tls_testing.h"

namespace quire {
namespace {

const std::string kBody(70'000, 'b');

// Answers by path: /send, /stream, /late from another thread; /no is refused on its head.
class ServerFault : public testing::TestWithParam<bool> {  // whether it fails ever after
 protected:
  void open(const TestCertificate* certificate = nullptr) {
    ServerOptions o;
    o.limits.body_bytes = 100'000;
    o.limits.linger_ms = 50;
    o.metrics = &metrics_;
    if (certificate != nullptr) {
      o.tls_certificate = certificate->certificate;
      o.tls_key = certificate->key;
    }
    auto started = Server::start(o, handler_);
    ASSERT_TRUE(started);
    server_ = std::move(*started);
  }
  void TearDown() override {
    allocation_fault.disarm();
    socket_fault.disarm();
    server_ = nullptr;
    for (std::thread& thread : late_) thread.join();
    EXPECT_EQ(n_begun_, n_ended_) << "each reply hears once that it is over";
  }
  Verdict judge(const HttpRequest& head) {
    const std::string path = head.path;
    return {[this, path](HttpRequest&& request, const ReplyPtr& reply) {
              reply->on_close([this](CloseReason) { ++n_ended_; });
              ++n_begun_;
              answer(path, std::move(request.body), reply);
            },
            path != "/no"};
  }
  void answer(const std::string& path, std::string&& body, const ReplyPtr& reply) {
    if (path == "/late") {
      late_.emplace_back([reply, body] { reply->send(200, {}, body + "."); });
    } else if (path == "/stream") {
      reply->start_stream(200, {{"Content-Type", "text/event-stream"}});
      reply->set_producer([n = 0](Reply& r) mutable {
        for (; n < 20; ++n)
          if (!r.write(std::string(1000, 's'))) return;
        r.write(".");
        r.end();
      });
      reply->post([reply] {});  // somebody has it until it has been swept
    } else if (path == "/no") {
      send_error(*reply, {403, "no.", "permission_error", "", "no"});
    } else {
      reply->send(200, {}, std::move(body) + ".");
    }
  }
  // What came, whatever it is.
  std::string exchange(const std::string& bytes, size_t n_answers) const {
    RawClient c(server_->port());
    c.send(bytes);
    std::string all;
    while (true) {
      const std::string part = c.read_some(5000);
      if (part.empty()) break;
      all += part;
      size_t n = 0;
      for (size_t at = 0; (at = all.find('.', at)) != std::string::npos; ++at)
        n += at < 6 || all.compare(at - 6, 6, "HTTP/1") != 0;
      if (n >= n_answers) break;
    }
    return all;
  }
  void expect_served() const {
    const std::string all = exchange("GET /send HTTP/1.1\r\nHost: h\r\n\r\n", 1);
    EXPECT_TRUE(all.starts_with("HTTP/1.1 200 ") && all.ends_with("\r\n\r\n.")) << all;
  }
  // Runs `request` with the first, second, … failing, until none does any more.
  void expect_survival(Fault& fault, const std::function<void()>& request) {
    int64_t n = 1;
    for (bool hit = true; hit; ++n) {
      ASSERT_LT(n, 3000);
      fault.arm(n, GetParam());
      request();
      hit = fault.disarm();
      expect_served();
      ASSERT_TRUE(eventually([&] { return server_->n_connections() == 0; })) << n;
      if (HasFailure()) return void(ADD_FAILURE() << "with number " << n << " failing");
    }
    EXPECT_GT(n, 2) << "nothing failed";
    EXPECT_TRUE(eventually([&] { return n_begun_ == n_ended_; }));
    EXPECT_TRUE(eventually([&] {
      return metrics_.gauge("quire_http_received_held_bytes", "").value() == 0 &&
             metrics_.gauge("quire_http_unsent_held_bytes", "").value() == 0;
    }));
  }
  void expect_survival_of_plain(Fault& fault) {
    const std::string host = " HTTP/1.1\r\nHost: h\r\n", length = "Content-Length: 70000\r\n\r\n";
    const std::string get = "GET /send" + host + "\r\n", post = "POST /send" + host + length + kBody;
    const std::string late = "POST /late" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    std::string many;
    for (int i = 0; i < 40; ++i) many += get;
    for (const auto& [bytes, n] : std::vector<std::pair<std::string, size_t>>{{get, 1},
                                                                              {post, 1},
                                                                              {late, 1},
                                                                              {"GET /stream" + host + "\r\n", 1},
                                                                              {"POST /no" + host + length, 1},
                                                                              {"nonsense\r\n\r\n", 1},
                                                                              {many, 40}})
      expect_survival(fault, [&, of = bytes, count = n] {
        const std::string all = exchange(of, count);
        if (!all.starts_with("HTTP/1.1 200 ") || of != post) return;
        if (all.ends_with(".")) {
          EXPECT_EQ(all.substr(all.find("\r\n\r\n") + 4), kBody + ".") << "complete, but wrong";
        }
      });
  }

  Metrics metrics_;
  std::atomic<int> n_begun_{0}, n_ended_{0};
  std::vector<std::thread> late_;
  JudgingHandler handler_{[this](const HttpRequest& head) { return judge(head); }};
  std::unique_ptr<Server> server_;
};

TEST_P(ServerFault, WithoutMemoryThatConnectionEndsAndNothingElse) {
  open();
  expect_survival_of_plain(allocation_fault);
  EXPECT_GT(metrics_.counter("quire_http_failures_total", "").value(), 50U);
}

TEST_P(ServerFault, ARequestForWhichThereIsNoMemoryIsA503) {
  open();
  int n_said = 0;
  expect_survival(allocation_fault, [&] {
    const std::string all = exchange("GET /send HTTP/1.1\r\nHost: h\r\n\r\n", 1);
    n_said += all.starts_with("HTTP/1.1 503 ") && all.find("out_of_memory") != std::string::npos;
    EXPECT_TRUE(all.empty() || all.starts_with("HTTP/1.1 503 ") || all.starts_with("HTTP/1.1 200 ")) << all;
  });
  EXPECT_GT(n_said, 3);
}

TEST_P(ServerFault, WithoutMemoryUnderTlsThatConnectionEndsAndNothingElse) {
  const TestCertificate certificate;
  ASSERT_TRUE(certificate.made);
  open(&certificate);
  int64_t n = 1;
  for (bool hit = true; hit; ++n) {
    ASSERT_LT(n, 1000);
    allocation_fault.arm(n, GetParam());
    tls_exchange(server_->port(), "POST /send HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n" + kBody);
    hit = allocation_fault.disarm();
    const std::string all = tls_exchange(server_->port(), "GET /send HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    ASSERT_TRUE(all.starts_with("HTTP/1.1 200 ")) << n << all;
    ASSERT_TRUE(eventually([&] { return server_->n_connections() == 0; })) << n;
  }
  EXPECT_GT(n, 10);
}

TEST_P(ServerFault, ASocketThatFailsEndsThatConnectionAndNothingElse) {
  open();
  for (const int error : {EPIPE, ECONNRESET, ENOBUFS, EAGAIN, EINTR}) {
    if (GetParam() && (error == EAGAIN || error == EINTR)) continue;  // for ever: that is a client that does nothing
    socket_errno = error;
    expect_survival_of_plain(socket_fault);
  }
}

// A byte at a time: nothing is lost or sent twice.
TEST_P(ServerFault, ShortReadsAndWritesChangeNothing) {
  open();
  socket_errno = 0;
  for (const std::string path : {"/send", "/stream", "/late"}) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n";
    const std::string want = exchange(request, 1);
    ASSERT_TRUE(want.starts_with("HTTP/1.1 200 ") && want.find('.', 10) != std::string::npos) << path << want;
    expect_survival(socket_fault, [&] {
      const std::string all = exchange(request, 1);
      ASSERT_NE(all.find("\r\n\r\n"), std::string::npos) << all;
      EXPECT_EQ(all.substr(all.find("\r\n\r\n")), want.substr(want.find("\r\n\r\n")));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(OnceAndEverAfter, ServerFault, testing::Bool());

}  // namespace
}  // namespace quire
