// Exchanges with other servers over TLS, between two real servers: whom an exchange believes, and that what passes is
// the same as without.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "http/testing.h"
#include "http/tls.h"
#include "http/tls_testing.h"
#include "http/upstream.h"

namespace quire {
namespace {

class HeardOverTls final : public UpstreamEvents {
 public:
  void on_head(UpstreamHead&& head) override {
    const std::lock_guard lock(mu_);
    status_ = head.status;
  }
  bool on_body(std::string_view bytes) override {
    const std::lock_guard lock(mu_);
    body_ += bytes;
    return true;
  }
  void on_end(const UpstreamError* error) override {
    const std::lock_guard lock(mu_);
    ended_ = true;
    if (error != nullptr) error_ = *error;
  }
  bool ended() {
    const std::lock_guard lock(mu_);
    return ended_;
  }

  std::mutex mu_;
  int status_ = 0;
  std::string body_;
  bool ended_ = false;
  std::optional<UpstreamError> error_;
};

class UpstreamTls : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(certificate_.made && other_.made);
    limits_.connect_ms = limits_.first_byte_ms = limits_.stall_ms = kPatienceMs;
    trust(certificate_.certificate);
    ServerOptions options;
    options.limits.linger_ms = 20;  // so that its clock ticks often
    asking_ = std::move(*Server::start(options, echo_));
    options.tls_certificate = certificate_.certificate;
    options.tls_key = certificate_.key;
    asked_ = std::move(*Server::start(options, echo_));
  }
  void trust(const std::string& file) {
    auto loaded = TlsTrust::load(file);
    ASSERT_TRUE(loaded) << loaded.error().message;
    limits_.trust = std::move(*loaded);
  }
  std::shared_ptr<HeardOverTls> ask(std::string name, std::string body = "", int port = 0) {
    UpstreamRequest request;
    request.to = {"127.0.0.1", port != 0 ? port : asked_->port(), std::move(name)};
    request.method = "POST";
    request.body = std::make_shared<const std::string>(std::move(body));
    auto heard = std::make_shared<HeardOverTls>();
    asking_->post([this, request, heard] { ask_upstream(request, limits_, heard); });
    EXPECT_TRUE(eventually([&] { return heard->ended(); }));
    return heard;
  }
  void expect_refused(const std::string& name, const char* words, int port = 0) {
    const auto heard = ask(name, "secret", port);
    ASSERT_TRUE(heard->error_) << name;
    EXPECT_EQ(heard->error_->fault, UpstreamFault::unreached);
    EXPECT_NE(heard->error_->message.find(words), std::string::npos) << heard->error_->message;
    EXPECT_EQ(heard->status_, 0);
  }

  TestCertificate certificate_{"127.0.0.1", "a"}, other_{"127.0.0.1", "b"};
  UpstreamLimits limits_;
  std::atomic<int> n_asked_{0};
  std::mutex host_mu_;
  std::string host_;  // of the last request
  FunctionHandler echo_{[this](HttpRequest&& request, const ReplyPtr& reply) {
    ++n_asked_;
    {
      const std::lock_guard lock(host_mu_);
      const std::string* host = request.header("host");
      host_ = host != nullptr ? *host : "";
    }
    reply->send(200, {}, request.body + "!");
  }};
  std::unique_ptr<Server> asking_, asked_;
};

TEST_F(UpstreamTls, WhatPassesIsTheSameAndTheConnectionIsKept) {
  for (const size_t n : {size_t{0}, size_t{5}, size_t{16 << 10}, size_t{5 << 20}}) {
    const std::string body(n, 'q');
    const auto heard = ask("127.0.0.1", body);
    ASSERT_FALSE(heard->error_) << heard->error_->message;
    EXPECT_EQ(heard->status_, 200);
    EXPECT_TRUE(heard->body_ == body + "!") << n;
  }
  EXPECT_EQ(asked_->n_connections(), 1);
}

// An address that was found under a name is asked under that name.
TEST_F(UpstreamTls, TheHostThatIsAskedForIsTheNameThatIsVerified) {
  UpstreamRequest request;
  request.to = {"localhost", asked_->port(), "127.0.0.1"};
  request.method = "POST";
  auto heard = std::make_shared<HeardOverTls>();
  asking_->post([&] { ask_upstream(request, limits_, heard); });
  EXPECT_TRUE(eventually([&] { return heard->ended(); }));
  ASSERT_FALSE(heard->error_) << heard->error_->message;
  const std::lock_guard lock(host_mu_);
  EXPECT_EQ(host_, "127.0.0.1:" + std::to_string(asked_->port()));
}

TEST_F(UpstreamTls, OnlyACertificateOfTheNameThatSomebodyTrustedHasSignedIsBelieved) {
  expect_refused("127.0.0.2", "IP address mismatch");
  expect_refused("elsewhere.example", "hostname mismatch");
  trust(other_.certificate);
  expect_refused("127.0.0.1", "its certificate is refused: ");
  trust("");  // whom this machine trusts has not signed it either
  expect_refused("127.0.0.1", "its certificate is refused: ");
  limits_.trust = nullptr;
  expect_refused("127.0.0.1", "nobody is trusted");
  EXPECT_EQ(n_asked_, 0);  // not a byte of the requests went there
}

TEST_F(UpstreamTls, WhoSpeaksNoTlsOrLeavesInTheHandshakeIsNotReached) {
  expect_refused("127.0.0.1", "cannot connect over TLS to '127.0.0.1'", asking_->port());
  RawListener listener;
  std::thread leaver([&] { ::close(listener.accept()); });
  expect_refused("127.0.0.1", "cut in the handshake", listener.port());
  leaver.join();
  limits_.connect_ms = 50;
  expect_refused("127.0.0.1", "50 ms (connect_ms)", listener.port());
}

TEST_F(UpstreamTls, AnEndThatNobodyAnnouncedIsNoEnd) {
  const std::string endless = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npart";
  for (const bool announced : {true, false}) {
    const auto context = std::move(*TlsContext::load(certificate_.certificate, certificate_.key));
    RawListener listener;
    std::thread server([&] {
      const int fd = listener.accept();
      const auto session = TlsSession::open(*context);
      std::string plain, wire;
      char bytes[4096];
      while (plain.find("\r\n\r\n") == std::string::npos) {
        const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0) break;
        session->receive({bytes, static_cast<size_t>(n)}, plain, wire);
        say_to(fd, std::exchange(wire, ""));
      }
      session->send(endless, wire);
      if (announced) session->close(wire);
      say_to(fd, wire);
      ::shutdown(fd, SHUT_WR);
      while (::recv(fd, bytes, sizeof bytes, 0) > 0) {
      }
      ::close(fd);
    });
    const auto heard = ask("127.0.0.1", "", listener.port());
    server.join();
    EXPECT_EQ(heard->body_, "part");
    EXPECT_EQ(heard->error_.has_value(), !announced);
  }
}

TEST(TlsTrust, AFileWithoutCertificatesIsNamed) {
  for (const char* file : {"/dev/null", "/nowhere/ca.pem"}) {
    const auto trust = TlsTrust::load(file);
    ASSERT_FALSE(trust);
    EXPECT_NE(trust.error().message.find(file), std::string::npos) << trust.error().message;
  }
}

}  // namespace
}  // namespace quire
