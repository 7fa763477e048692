// Clients that misuse TLS itself, before and after a handshake, over real sockets. A bystander is served beside each.
#include <gtest/gtest.h>
#include <poll.h>

#include "http/testing.h"
#include "http/tls_testing.h"

namespace quire {
namespace {

class ServerTls : public testing::Test {
 protected:
  void open(HttpLimits limits) {
    ASSERT_TRUE(certificate_.made);
    ServerOptions o;
    o.limits = limits;
    o.tls_certificate = certificate_.certificate;
    o.tls_key = certificate_.key;
    auto started = Server::start(o, handler_);
    ASSERT_TRUE(started);
    server_ = std::move(*started);
  }
  void TearDown() override {
    if (server_ == nullptr) return;
    expect_bystander_served();
    server_->stop(0);
  }
  void expect_bystander_served() const {
    const std::string all = tls_exchange(server_->port(), "GET /by HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(all.starts_with("HTTP/1.1 200 ")) << all;
  }

  TestCertificate certificate_;
  FunctionHandler handler_{[](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {}, "."); }};
  std::unique_ptr<Server> server_;
};

// Nothing but the clock of heads may end them.
HttpLimits short_heads() {
  HttpLimits l;
  l.header_timeout_ms = 300;
  l.idle_timeout_ms = l.body_timeout_ms = 10 * kPatienceMs;
  return l;
}

TEST_F(ServerTls, AHandshakeThatDoesNotComeToItsEndIsCutAtTheHeadsTimeout) {
  open(short_heads());
  TlsClient silent(server_->port()), half(server_->port()), unfinished(server_->port());
  const std::string hello = half.hello();
  half.socket.send(hello.substr(0, hello.size() / 2));
  unfinished.socket.send(unfinished.hello());
  EXPECT_NE(unfinished.socket.read_some(), "");  // the server has said its part
  expect_bystander_served();
  for (TlsClient* client : {&silent, &half, &unfinished}) {
    EXPECT_EQ(client->socket.read_to_end().substr(0, 5).find("HTTP"), std::string::npos);
    EXPECT_FALSE(client->socket.timed_out()) << "it was left open";
  }
}

TEST_F(ServerTls, AHelloThatComesByteByByteBuysNoTime) {
  open(short_heads());
  TlsClient client(server_->port());
  const std::string hello = client.hello();
  size_t at = 0;
  for (; at + 1 < hello.size(); ++at) {  // never the last one
    pollfd ended{client.socket.fd(), POLLIN, 0};
    if (::poll(&ended, 1, 20) == 1) break;
    client.socket.send(hello.substr(at, 1));
  }
  EXPECT_LT(at + 1, hello.size()) << "several seconds, and still no end";
  EXPECT_EQ(client.socket.read_to_end(), "");
  EXPECT_FALSE(client.socket.timed_out());
}

TEST_F(ServerTls, NobodyRenegotiates) {
  open({});
  TlsClient client(server_->port(), 0, TLS1_2_VERSION);
  ASSERT_TRUE(client.handshake());
  ASSERT_EQ(SSL_renegotiate(client.ssl()), 1);
  SSL_do_handshake(client.ssl());
  client.socket.send(client.spoken());
  const std::string said = client.socket.read_some();
  BIO_write(SSL_get_rbio(client.ssl()), said.data(), static_cast<int>(said.size()));
  EXPECT_NE(SSL_do_handshake(client.ssl()), 1);
}

// TLS answers some records by itself. Who asks for that again and again and reads none of it is not read from either,
// and what waits for it is bounded.
TEST_F(ServerTls, WhoMakesTlsTalkAndReadsNothingIsHeldBack) {
  constexpr size_t kFlood = 4 << 20;
  HttpLimits l;
  l.send_buffer_bytes = 4096;
  open(l);
  TlsClient client(server_->port(), 4096);
  ASSERT_TRUE(client.handshake());
  size_t n_sent = 0;
  while (n_sent < kFlood) {
    std::string bytes;
    while (bytes.size() < (16 << 10)) {
      ASSERT_EQ(SSL_key_update(client.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
      ASSERT_EQ(SSL_do_handshake(client.ssl()), 1);
      bytes += client.spoken();
    }
    const size_t before = n_sent;
    for (size_t at = 0; at < bytes.size();) {
      pollfd writable{client.socket.fd(), POLLOUT, 0};
      if (::poll(&writable, 1, 1500) != 1) break;
      const size_t n = client.socket.send_what_fits(std::string_view(bytes).substr(at));
      at += n;
      n_sent += n;
    }
    if (n_sent < before + bytes.size()) break;
  }
  EXPECT_LT(n_sent, kFlood) << "all of it was read, and its answers are held";
  EXPECT_NE(client.socket.read_some(), "") << "nothing was answered: the test shows nothing";
}

}  // namespace
}  // namespace quire
