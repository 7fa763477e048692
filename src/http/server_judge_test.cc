// A request is judged by its head: what is refused costs no body, and what was reserved for a request ends with it.
#include <gtest/gtest.h>

#include <atomic>

#include "http/client.h"
#include "http/testing.h"

namespace quire {
namespace {

constexpr const char* kLongPost = "POST /no HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n";

class ServerJudge : public testing::Test {
 protected:
  ServerJudge() {
    auto started = Server::start({}, handler_);
    EXPECT_TRUE(started);
    server_ = std::move(*started);
  }
  RawClient client() { return RawClient(server_->port()); }

  std::atomic<int> n_judged_{0}, n_answered_{0}, n_held_{0};
  // Holds something for every request until it is answered, and refuses /no; /throw throws.
  JudgingHandler handler_{[this](const HttpRequest& head) {
    ++n_judged_;
    EXPECT_TRUE(head.body.empty());
    EXPECT_EQ(head.peer, "127.0.0.1");
    if (head.path == "/throw") throw std::runtime_error("secret");
    ++n_held_;
    const std::shared_ptr<void> held(nullptr, [this](void*) { --n_held_; });
    const int status = head.path == "/no" ? 403 : 200;
    return Verdict{[this, held, status](HttpRequest&& request, const ReplyPtr& reply) {
                     ++n_answered_;
                     reply->send(status, {}, "<" + request.body + ">");
                   },
                   status == 200};
  }};
  std::unique_ptr<Server> server_;
};

TEST_F(ServerJudge, ARefusedHeadIsAnsweredBeforeItsBodyAndEndsTheConnection) {
  for (const std::string more : {"\r\n", "\r\nthe first bytes of it", "Expect: 100-continue\r\n\r\n"}) {
    RawClient c = client();
    c.send(kLongPost + more);
    const std::string answer = c.read_to_end();
    EXPECT_FALSE(c.timed_out());
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 ")) << answer;
    EXPECT_TRUE(answer.ends_with("Connection: close\r\n\r\n<>")) << answer;
  }
  EXPECT_EQ(n_answered_, 3);
}

TEST_F(ServerJudge, BytesBehindARefusedHeadAreNoRequest) {
  RawClient c = client();
  const std::string inner = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
  c.send("POST /no HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(inner.size()) + "\r\n\r\n" + inner +
         inner);
  EXPECT_NE(c.read_to_end(), "");
  RawClient chunked = client();
  chunked.send("POST /no HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner);
  EXPECT_NE(chunked.read_to_end(), "");
  EXPECT_EQ(n_judged_, 2);
}

TEST_F(ServerJudge, ARefusalWithoutABodyKeepsTheConnection) {
  RawClient c = client();
  for (int i = 0; i < 3; ++i) {
    c.send("GET /no HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(c.read_until("<>").starts_with("HTTP/1.1 403 "));
  }
  EXPECT_EQ(server_->n_connections(), 1);
}

TEST_F(ServerJudge, OnceARequestAndWhatItHoldsEndsWithIt) {
  {
    RawClient c = client();
    c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n");
    for (const char* byte : {"a", "b", "c"}) {
      c.send(byte);
      EXPECT_TRUE(eventually([&] { return n_held_ == 1; }));
    }
    EXPECT_EQ(n_answered_, 0);
    c.send("d");
    EXPECT_NE(c.read_until("<abcd>"), "");
    EXPECT_TRUE(eventually([&] { return n_held_ == 0; }));
    c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab");
    EXPECT_TRUE(eventually([&] { return n_held_ == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return n_held_ == 0; })) << "the client left before its body was complete";
  EXPECT_EQ(n_judged_, 2);
  EXPECT_EQ(n_answered_, 1);
}

TEST_F(ServerJudge, AJudgeThatThrowsIsA500) {
  RawClient c = client();
  c.send("GET /throw HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string answers = c.read_until("<>");
  EXPECT_TRUE(answers.starts_with("HTTP/1.1 500 ")) << answers;
  EXPECT_EQ(answers.find("secret"), std::string::npos);
  EXPECT_NE(answers.find("HTTP/1.1 200 "), std::string::npos);
}

}  // namespace
}  // namespace quire
