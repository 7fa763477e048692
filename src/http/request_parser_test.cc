#include "http/request_parser.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace quire {
namespace {

using State = RequestParser::State;

HttpLimits small_limits() {
  HttpLimits l;
  l.header_bytes = 1024;
  l.url_bytes = 256;
  l.n_headers = 10;
  l.body_bytes = 100;
  l.path_body_bytes = {{"/big", 1000}};
  return l;
}

// Feeds in pieces of `cut` bytes; returns how many bytes were used.
size_t feed(RequestParser& p, std::string_view bytes, size_t cut = std::string_view::npos) {
  size_t used = 0;
  while (used < bytes.size() && (p.state() == State::head || p.state() == State::body))
    used += p.feed(bytes.substr(used, cut));
  return used;
}

// 0 when complete, -1 when unfinished, else the status of the refusal; the same for every cut, which is checked.
int outcome(std::string_view bytes) {
  const HttpLimits limits = small_limits();
  int first = -2;
  for (const size_t cut : {size_t{1} << 20, size_t{1}, size_t{7}}) {
    RequestParser p(limits);
    feed(p, bytes, cut);
    const int got = p.state() == State::done ? 0 : p.state() == State::failed ? p.error().status : -1;
    if (first == -2) first = got;
    EXPECT_EQ(got, first) << "cut " << cut << " of " << bytes.substr(0, 200);
  }
  return first;
}

TEST(RequestParser, ReadsARequestSplitAtEveryByte) {
  const std::string first =
      "POST /v1/chat%2Fx?a=b HTTP/1.1\r\nHost: h\r\nX-Two:  padded \t\r\nContent-Length: 11\r\n\r\nhello world";
  const std::string bytes = first + "GET / HTTP/1.1\r\n";
  const HttpLimits limits = small_limits();
  for (size_t at = 0; at <= bytes.size(); ++at) {
    RequestParser p(limits);
    size_t used = feed(p, std::string_view(bytes).substr(0, at));
    used += feed(p, std::string_view(bytes).substr(used));
    ASSERT_EQ(p.state(), State::done) << at;
    ASSERT_EQ(used, first.size()) << at;
    const HttpRequest& r = p.request();
    ASSERT_EQ(r.method, "POST");
    ASSERT_EQ(r.path, "/v1/chat/x");
    ASSERT_EQ(r.query, "a=b");
    ASSERT_EQ(*r.header("x-two"), "padded");
    ASSERT_EQ(r.body, "hello world");
    ASSERT_TRUE(p.keep_alive());
  }
}

TEST(RequestParser, ReadsAChunkedBodySplitAtEveryByte) {
  const std::string first =
      "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "5\r\nhello\r\n6;a=b;c=\"d\"\r\n world\r\n00\r\nX-Trailer: 1\r\nContent-Type: t\r\n\r\n";
  const std::string bytes = first + "next";
  const HttpLimits limits = small_limits();
  for (size_t at = 0; at <= bytes.size(); ++at) {
    RequestParser p(limits);
    size_t used = feed(p, std::string_view(bytes).substr(0, at));
    used += feed(p, std::string_view(bytes).substr(used));
    ASSERT_EQ(p.state(), State::done) << at << " " << p.error().message;
    ASSERT_EQ(used, first.size()) << at;
    ASSERT_EQ(p.request().body, "hello world");
    ASSERT_EQ(p.request().header("x-trailer"), nullptr);  // trailers are dropped
    ASSERT_EQ(p.request().header("content-type"), nullptr);
  }
}

TEST(RequestParser, StopsBehindTheHead) {
  const HttpLimits limits = small_limits();
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n";
  RequestParser p(limits);
  EXPECT_EQ(p.feed(head + "hi"), head.size());
  EXPECT_EQ(p.state(), State::body);
  EXPECT_EQ(p.body_bytes(), 0);
  EXPECT_EQ(p.feed("hi"), 2U);
  EXPECT_EQ(p.state(), State::done);
}

TEST(RequestParser, KeepsNoMemoryOfWhatItForgets) {
  HttpLimits limits = small_limits();
  limits.body_bytes = limits.header_bytes = 1 << 20;
  RequestParser p(limits);
  EXPECT_LT(p.held_bytes(), 100);
  feed(p, "POST / HTTP/1.1\r\nHost: h\r\nX: " + std::string(9000, 'x') + "\r\nContent-Length: 500000\r\n\r\n");
  EXPECT_GT(p.held_bytes(), 9000);
  feed(p, std::string(400'000, 'b'), 1000);
  EXPECT_EQ(p.state(), State::body);
  EXPECT_GT(p.held_bytes(), 409'000);
  p.reset();
  EXPECT_LT(p.held_bytes(), 100);
  EXPECT_LT(p.request().body.capacity(), 100U);
  feed(p, "POST / HTTP/1.1\r\nX: " + std::string(9000, 'x'));
  EXPECT_GT(p.held_bytes(), 9000);
  p.reset();
  EXPECT_LT(p.held_bytes(), 1100);
}

TEST(RequestParser, IsReusableAfterReset) {
  const HttpLimits limits = small_limits();
  RequestParser p(limits);
  feed(p, "GET /a HTTP/1.0\r\n\r\n", 3);
  EXPECT_FALSE(p.keep_alive());
  p.reset();
  EXPECT_FALSE(p.started());
  feed(p, "GET /b HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", 5);
  EXPECT_EQ(p.request().path, "/b");
  EXPECT_FALSE(p.keep_alive());
  p.reset();
  feed(p, "GET /c HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 4);
  EXPECT_TRUE(p.keep_alive());
}

TEST(RequestParser, AcceptsWhatTheStandardAllows) {
  for (const char* good :
       {"GET / HTTP/1.0\r\n\r\n", "\r\n\r\nGET / HTTP/1.1\r\nHost:\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET http://h/x HTTP/1.1\r\nHost: h\r\n\r\n", "BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: identity\r\nContent-Length: 1\r\n\r\nx",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
        "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\nX: b\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nX-Utf8: \xc3\xa4\r\n\r\n"})
    EXPECT_EQ(outcome(good), 0) << good;
}

// Whatever two parsers could read differently is refused, never guessed.
TEST(RequestParser, RefusesSmuggling) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\n";
  for (const char* bad : {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                          "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
                          "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
                          "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
                          "Content-Length: 5, 5\r\n\r\n",
                          "Content-Length: +5\r\n\r\n",
                          "Content-Length: -5\r\n\r\n",
                          "Content-Length: 0x5\r\n\r\n",
                          "Content-Length: 5a\r\n\r\n",
                          "Content-Length: \r\n\r\n",
                          "Content-Length: 99999999999999999999\r\n\r\n",
                          "Content-Length : 5\r\n\r\n",
                          " Content-Length: 5\r\n\r\n",
                          "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                          "Transfer-Encoding : chunked\r\n\r\n",
                          "X: a\r\n b\r\n\r\n",
                          "X: a\r\n\tb\r\n\r\n",
                          "X: a\nContent-Length: 5\r\n\r\n",
                          "X: a\rContent-Length: 5\r\n\r\n",
                          "no colon\r\n\r\n",
                          ": no name\r\n\r\n",
                          "bad name: x\r\n\r\n",
                          "Host: other\r\n\r\n"})
    EXPECT_EQ(outcome(head + bad), 400) << bad;
  for (const char* coding : {"gzip", "identity", "chunked, chunked", "gzip, chunked", "xchunked", "chunked;q=1"})
    EXPECT_EQ(outcome(head + "Transfer-Encoding: " + coding + "\r\n\r\n"), 501) << coding;
  EXPECT_EQ(outcome("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(outcome(head + std::string("X: a\0b\r\n\r\n", 10)), 400);
}

TEST(RequestParser, RefusesBadChunks) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* bad :
       {"ffffffffffffffffff\r\n", "-1\r\nx", "+1\r\nx", "0x1\r\nx\r\n", " 1\r\nx\r\n", "g\r\n", "\r\n", "1\r\nxy\r\n",
        "1\nx\n", "1\r\nx\n0\r\n\r\n", "0\r\nbad trailer\r\n\r\n", "0\r\n: x\r\n\r\n"})
    EXPECT_EQ(outcome(head + bad + "\r\n\r\n"), 400) << bad;
  EXPECT_EQ(outcome(head + "ffffffffffffffff\r\n"), 413);
  EXPECT_EQ(outcome(head + "1;x=" + std::string(300, 'y') + "\r\nx\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(outcome(head + "1;x=" + std::string(100'000, 'y')), 400);
  EXPECT_EQ(outcome(head + "0\r\nX: " + std::string(100'000, 'y')), 431);
  EXPECT_EQ(outcome(head + "5\r\nhello\r\n"), -1);  // the last chunk is missing
}

TEST(RequestParser, RefusesBadLines) {
  const std::string nul("GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n", 28);
  const std::string tls("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  for (const std::string& bad :
       {nul, tls, std::string("GET / HTTP/1.1\nHost: h\n\n"), std::string("GET /\r\n\r\n"),
        std::string("GET  / HTTP/1.1\r\nHost: h\r\n\r\n"), std::string("GET / x HTTP/1.1\r\nHost: h\r\n\r\n"),
        std::string("G(T / HTTP/1.1\r\nHost: h\r\n\r\n"), std::string("\r\n\r\n\r\nGET / HTTP/1.1\r\n"),
        std::string(" GET / HTTP/1.1\r\nHost: h\r\n\r\n"), std::string("GET / http/1.1\r\nHost: h\r\n\r\n"),
        std::string("GET / HTTP/1.1 \r\nHost: h\r\n\r\n"), std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n"), std::string("GET /..%2fx HTTP/1.1\r\nHost: h\r\n\r\n"),
        std::string("GET x HTTP/1.1\r\nHost: h\r\n\r\n"), std::string("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n"),
        std::string(40, 'M') + " / HTTP/1.1\r\nHost: h\r\n\r\n"})
    EXPECT_EQ(outcome(bad), 400) << bad;
  EXPECT_EQ(outcome("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(outcome("GET / HTTP/0.9\r\n\r\n"), 505);
  EXPECT_EQ(outcome("GET / HTTP/1.2\r\nHost: h\r\n\r\n"), 505);
  EXPECT_EQ(outcome("POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"), 415);
  EXPECT_EQ(outcome("POST / HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\nContent-Length: 1\r\n\r\nx"), 417);
}

TEST(RequestParser, KeepsTheLimits) {
  const std::string line = "GET / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(outcome("GET /" + std::string(255, 'u') + " HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
  EXPECT_EQ(outcome("GET /" + std::string(256, 'u') + " HTTP/1.1\r\nHost: h\r\n\r\n"), 414);
  EXPECT_EQ(outcome("GET /" + std::string(100'000, 'u')), 414);
  const size_t fits = 1024 - line.size() - 7;
  EXPECT_EQ(outcome(line + "X: " + std::string(fits, 'x') + "\r\n\r\n"), 0);
  EXPECT_EQ(outcome(line + "X: " + std::string(fits + 1, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(outcome(line + "X: " + std::string(1'000'000, 'x')), 431);
  std::string ten = line;
  for (int i = 1; i < 10; ++i) ten += "X: y\r\n";
  EXPECT_EQ(outcome(ten + "\r\n"), 0);
  EXPECT_EQ(outcome(ten + "X: y\r\n\r\n"), 431);

  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: ";
  EXPECT_EQ(outcome(post + "100\r\n\r\n" + std::string(100, 'b')), 0);
  EXPECT_EQ(outcome(post + "101\r\n\r\n"), 413);
  EXPECT_EQ(outcome("POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'b')), 0);
  EXPECT_EQ(outcome("POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n"), 413);
  std::string chunks = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 100; ++i) chunks += "1\r\nx\r\n";
  EXPECT_EQ(outcome(chunks + "0\r\n\r\n"), 0);
  EXPECT_EQ(outcome(chunks + "1\r\nx\r\n0\r\n\r\n"), 413);
}

TEST(RequestParser, ErrorsNameLimitAndValue) {
  const HttpLimits limits = small_limits();
  RequestParser p(limits);
  feed(p, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n", 100);
  EXPECT_EQ(p.error().message, "body bytes (body_bytes) over the limit of 100: 101");
  EXPECT_EQ(p.error().code, "body_too_large");
}

TEST(RequestParser, AMillionOneByteChunksTakeLinearTime) {
  HttpLimits limits;
  RequestParser p(limits);
  std::string bytes = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 1'000'000; ++i) bytes += "1\r\nx\r\n";
  bytes += "0\r\n\r\n";
  EXPECT_EQ(feed(p, bytes, 1000), bytes.size());
  EXPECT_EQ(p.state(), State::done);
  EXPECT_EQ(p.request().body, std::string(1'000'000, 'x'));
}

// Bytes of a valid request changed at random: any outcome, the same for every cut, and never a hang.
TEST(RequestParser, MutatedRequestsBehaveTheSameInEveryCut) {
  const std::string seed =
      "POST /v1?x=%20 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
      "5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n";
  static constexpr std::string_view kBytes("\r\n\t :;,0\0x%/", 12);
  Rng rng(11);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = seed;
    for (int64_t n = rng.between(1, 3); n > 0; --n) {
      const auto at = static_cast<size_t>(rng.between(0, static_cast<int64_t>(bytes.size()) - 1));
      const char c = kBytes[static_cast<size_t>(rng.between(0, 11))];
      if (rng.between(0, 2) == 0)
        bytes.erase(at, 1);
      else if (rng.between(0, 1) == 0)
        bytes[at] = c;
      else
        bytes.insert(at, 1, c);
    }
    outcome(bytes);
  }
}

}  // namespace
}  // namespace quire
