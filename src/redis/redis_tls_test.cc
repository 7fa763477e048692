// A client over TLS, before a real server: that what passes is the same, whom it believes, and that nothing waits for a
// connection that does not come about.
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "http/tls_testing.h"
#include "redis/redis_client.h"
#include "redis/testing.h"

namespace quire {
namespace {

class RedisTls : public testing::Test {
 protected:
  // A server that asks for certificates, "no", "optional" or "yes".
  void serve(const std::string& asks = "no") {
    ASSERT_TRUE(certificate_.made && other_.made);
    {
      const RawListener free_port;
      port_ = free_port.port();
    }
    redis_ = std::make_unique<RealRedis>(std::vector<std::string>{
        "--tls-port", std::to_string(port_), "--tls-cert-file", certificate_.certificate, "--tls-key-file",
        certificate_.key, "--tls-ca-cert-file", certificate_.certificate, "--tls-auth-clients", asks});
    if (redis_->port() == 0) GTEST_SKIP() << "there is no redis-server";
  }
  RedisOptions at(const std::string& host, int port, const RedisTlsFiles& files) const {
    RedisOptions out;
    out.host = host;
    out.port = port;
    out.over_tls = true;
    out.retry_ms = out.most_retry_ms = 10;
    out.stall_ms = kPatienceMs;
    out.most_reply_bytes = 4 << 20;
    out.quiet = true;
    const Status read = read_redis_tls(out, files);
    EXPECT_TRUE(read) << read.error().message;
    return out;
  }
  void expect_refused(const RedisOptions& options) {
    std::atomic<int> n_errors{0};
    RedisClient client(options, {.up = {}, .error = [&] { ++n_errors; }, .dropped = {}});
    EXPECT_TRUE(eventually([&] { return n_errors >= 3; }));  // it goes on trying
    EXPECT_FALSE(client.up());
    EXPECT_FALSE(client.send(std::vector<std::string>{"PING"}, nullptr, 0));
  }
  // "": none came.
  static std::string say(RedisClient& client, const std::vector<std::string>& words) {
    std::atomic<bool> told{false};
    std::string out;
    const auto hear = [&](const RedisReply& reply) {
      out = reply.text;
      told = true;
    };
    EXPECT_TRUE(client.send(words, hear, 0)) << words[0];
    EXPECT_TRUE(eventually([&] { return told.load(); })) << words[0];
    return out;
  }

  TestCertificate certificate_{"127.0.0.1", "a"}, other_{"127.0.0.1", "b"};
  std::unique_ptr<RealRedis> redis_;
  int port_ = 0;
};

TEST_F(RedisTls, WhatPassesIsTheSameAndInOrder) {
  serve();
  if (IsSkipped()) return;
  RedisClient client(at("127.0.0.1", port_, {certificate_.certificate, "", ""}), {});
  ASSERT_TRUE(eventually([&] { return client.up(); }));
  for (const size_t n : {size_t{0}, size_t{1}, size_t{16 << 10}, (size_t{16} << 10) + 1, size_t{3} << 20}) {
    std::string value(n, 'q');
    if (n > 2) value[n / 2] = '\0', value[n / 3] = '\n';
    EXPECT_EQ(say(client, {"SET", "key", value}), "OK");
    EXPECT_TRUE(say(client, {"GET", "key"}) == value) << n;
  }
  constexpr int kCommands = 2'000;
  std::atomic<int> n_right{0}, n_told{0};
  for (int i = 0; i < kCommands; ++i) {
    const auto hear = [&, i](const RedisReply& reply) {
      if (reply.text == std::to_string(i)) ++n_right;
      ++n_told;
    };
    ASSERT_TRUE(client.send(std::vector<std::string>{"ECHO", std::to_string(i)}, hear, 0));
  }
  EXPECT_TRUE(eventually([&] { return n_told == kCommands; }));
  EXPECT_EQ(n_right, kCommands);
}

TEST_F(RedisTls, OnlyACertificateOfTheHostThatSomebodyTrustedHasSignedIsBelieved) {
  serve();
  if (IsSkipped()) return;
  expect_refused(at("localhost", port_, {certificate_.certificate, "", ""}));  // it is 127.0.0.1's
  expect_refused(at("127.0.0.1", port_, {other_.certificate, "", ""}));
  expect_refused(at("127.0.0.1", port_, {}));  // this machine does not trust it
  RedisOptions plain = at("127.0.0.1", redis_->port(), {certificate_.certificate, "", ""});
  plain.stall_ms = 50;  // it speaks no TLS, and waits for more
  expect_refused(plain);
}

TEST_F(RedisTls, AServerThatAsksIsShownACertificate) {
  serve("yes");
  if (IsSkipped()) return;
  RedisClient client(at("127.0.0.1", port_, {certificate_.certificate, certificate_.certificate, certificate_.key}),
                     {});
  ASSERT_TRUE(eventually([&] { return client.up(); }));
  EXPECT_EQ(say(client, {"ECHO", "hello"}), "hello");
  expect_refused(at("127.0.0.1", port_, {certificate_.certificate, "", ""}));
  expect_refused(at("127.0.0.1", port_, {certificate_.certificate, other_.certificate, other_.key}));
}

// A proxy lets so many bytes of the server pass, then closes; each connection a few more.
TEST_F(RedisTls, HoweverItIsCutEveryQuestionIsAnsweredOnceAndTheNextConnectionIsTried) {
  serve();
  if (IsSkipped()) return;
  RawListener door;
  std::atomic<bool> ends{false};
  std::atomic<int> n_cut{0};
  std::thread proxy([&] {
    for (size_t lets = 0; !ends; lets += 97) {
      const int fd = door.accept();
      if (fd < 0) continue;
      RawClient server(port_);
      char bytes[4096];
      for (size_t passed = 0; !ends && passed < lets;) {
        std::array<pollfd, 2> fds{pollfd{fd, POLLIN, 0}, pollfd{server.fd(), POLLIN, 0}};
        if (::poll(fds.data(), 2, 10) <= 0) continue;
        if (fds[0].revents != 0) {
          const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
          if (n <= 0 || !server.send({bytes, static_cast<size_t>(n)})) break;
        }
        if (fds[1].revents != 0) {
          const std::string said = server.read_some();
          if (said.empty()) break;
          say_to(fd, said.substr(0, lets - passed));
          passed += said.size();
        }
      }
      ::close(fd);
      ++n_cut;
    }
  });
  std::atomic<int> n_asked{0}, n_told{0}, n_answered{0};
  {
    RedisOptions options = at("127.0.0.1", door.port(), {certificate_.certificate, "", ""});
    options.retry_ms = options.most_retry_ms = 1;
    RedisClient client(options, {});
    EXPECT_TRUE(eventually([&] {
      const auto hear = [&](const RedisReply& reply) {
        ++n_told;
        if (reply.text == "hello") ++n_answered;
      };
      if (client.send(std::vector<std::string>{"ECHO", "hello"}, hear, 0)) ++n_asked;
      return n_cut >= 40 && n_answered > 0;
    }));
  }
  EXPECT_EQ(n_told, n_asked);
  ends = true;
  const RawClient wake(door.port());
  proxy.join();
}

TEST(RedisTlsFiles, AreNamedWhereTheyAreWrong) {
  const TestCertificate certificate;
  RedisOptions plain, over_tls;
  over_tls.over_tls = true;
  EXPECT_TRUE(read_redis_tls(plain, {}));
  const auto error = [](RedisOptions options, const RedisTlsFiles& files) {
    const Status read = read_redis_tls(options, files);
    return read ? "" : read.error().message;
  };
  EXPECT_NE(error(plain, {certificate.certificate, "", ""}).find("rediss://"), std::string::npos);
  EXPECT_NE(error(over_tls, {"/nowhere/ca.pem", "", ""}).find("/nowhere/ca.pem"), std::string::npos);
  EXPECT_NE(error(over_tls, {"", "/nowhere/own.pem", certificate.key}).find("/nowhere/own.pem"), std::string::npos);
  EXPECT_NE(error(over_tls, {"", certificate.certificate, ""}).find("needs its key"), std::string::npos);
  EXPECT_EQ(error(over_tls, {certificate.certificate, certificate.certificate, certificate.key}), "");
}

}  // namespace
}  // namespace quire
