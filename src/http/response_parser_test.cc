#include "http/response_parser.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace quire {
namespace {

struct Read {
  ResponseParser::State state = ResponseParser::State::head;
  int status = 0;
  std::string body, fault, rest;
  bool keep_alive = false;
};

// In pieces of `step` bytes, then the end of the connection where `ends`.
Read read(
    std::string_view bytes, size_t step, bool ends = false, const HttpLimits& limits = {}, bool head_only = false) {
  ResponseParser parser(limits, head_only);
  Read out;
  const auto goes_on = [&] {
    return parser.state() == ResponseParser::State::head || parser.state() == ResponseParser::State::body;
  };
  while (!bytes.empty() && goes_on()) {
    std::string_view piece = bytes.substr(0, step);
    while (!piece.empty() && goes_on()) {
      const size_t used = parser.feed(piece, out.body);
      piece.remove_prefix(used);
      bytes.remove_prefix(used);
    }
  }
  if (ends) parser.end_of_input();
  out.state = parser.state();
  out.status = parser.status();
  out.keep_alive = parser.keep_alive();
  out.rest = bytes;
  if (out.state == ResponseParser::State::failed) out.fault = parser.fault();
  return out;
}

using State = ResponseParser::State;

TEST(ResponseParser, BodiesAreTheSameHoweverTheyAreCut) {
  const struct {
    std::string_view bytes, body;
    bool ends, keep_alive;
  } cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", false, true},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n", "abcde",
       false, true},
      {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end", "until the end", true, false},
      {"HTTP/1.0 200 OK\r\n\r\nold", "old", true, false},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", false, true},
      {"HTTP/1.1 204 No Content\r\n\r\n", "", false, true},
      {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "", false, false},
  };
  for (const auto& c : cases)
    for (size_t step = 1; step <= c.bytes.size(); ++step) {
      const Read got = read(c.bytes, step, c.ends);
      ASSERT_EQ(got.state, State::done) << c.bytes << step << got.fault;
      EXPECT_EQ(got.body, c.body);
      EXPECT_EQ(got.keep_alive, c.keep_alive) << c.bytes;
    }
}

TEST(ResponseParser, WhatFollowsIsNotUsed) {
  const Read got = read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 Smuggled\r\n\r\n", 1000);
  EXPECT_EQ(got.state, State::done);
  EXPECT_EQ(got.rest, "HTTP/1.1 500 Smuggled\r\n\r\n");
}

TEST(ResponseParser, TheAnswerToAHeadHasNoBody) {
  const Read got = read("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", 7, false, {}, true);
  EXPECT_EQ(got.state, State::done);
}

TEST(ResponseParser, WhatTwoCouldReadDifferentlyIsRefused) {
  const struct {
    std::string_view bytes, fault;
  } cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "bad Transfer-Encoding"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "multiple Content-Length"},
      {"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", "bad Content-Length"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "transfer-encoding gzip"},
      {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer-encoding chunked"},
      {"HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\n", "CR LF"},
      {"HTTP/1.1 200 OK\r\nA: b\x01\r\n\r\n", "control character"},
      {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "folded"},
      {"HTTP/1.1 101 Switching\r\n\r\n", "interim status 101"},
      {"HTTP/1.1 999 What\r\n\r\n", "status 999"},
      {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "malformed head"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "malformed chunk"},
  };
  for (const auto& c : cases)
    for (const size_t step : {size_t{1}, size_t{5}, c.bytes.size()}) {
      const Read got = read(c.bytes, step);
      ASSERT_EQ(got.state, State::failed) << c.bytes;
      EXPECT_NE(got.fault.find(c.fault), std::string::npos) << got.fault;
    }
}

TEST(ResponseParser, LimitsAreNamedWithTheirValues) {
  HttpLimits limits;
  limits.header_bytes = 100;
  limits.n_headers = 3;
  const Read large = read("HTTP/1.1 200 OK\r\nA: " + std::string(200, 'x'), 9, false, limits);
  EXPECT_NE(large.fault.find("100 bytes (header_bytes)"), std::string::npos) << large.fault;
  const Read many = read("HTTP/1.1 200 OK\r\na: 1\r\nb: 1\r\nc: 1\r\nd: 1\r\n\r\n", 9, false, limits);
  EXPECT_NE(many.fault.find("limit of 3 (n_headers)"), std::string::npos) << many.fault;
  std::string interim;
  for (int i = 0; i < 20; ++i) interim += "HTTP/1.1 102 Processing\r\n\r\n";
  EXPECT_EQ(read(interim, 1000).state, State::failed);
}

TEST(ResponseParser, WhateverComesTheCutsDoNotMatter) {
  constexpr std::string_view kSeeds[] = {
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 503 No\r\nConnection: keep-alive, x\r\nContent-Length: 2\r\n\r\nok"};
  constexpr std::string_view kPieces[] = {"\r\n",
                                          "\r\n\r\n",
                                          ":",
                                          " ",
                                          "0",
                                          "9",
                                          "-",
                                          "\n",
                                          "\t",
                                          "Content-Length: 7\r\n",
                                          "Transfer-Encoding: chunked\r\n",
                                          "\xff",
                                          "HTTP/1.1 "};
  HttpLimits limits;
  limits.header_bytes = 120;
  limits.n_headers = 4;
  Rng rng(11);
  const auto below = [&](size_t n) { return static_cast<size_t>(rng.between(0, static_cast<int64_t>(n) - 1)); };
  int n_done = 0, n_failed = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(kSeeds[below(std::size(kSeeds))]);
    for (int64_t k = rng.between(0, 3); k > 0; --k) {
      const size_t at = below(bytes.size());
      if (rng.between(0, 1) == 0)
        bytes.insert(at, kPieces[below(std::size(kPieces))]);
      else
        bytes.erase(at, 1 + below(4));
      if (bytes.empty()) bytes = "x";
    }
    const bool ends = rng.between(0, 1) == 1;
    const Read whole = read(bytes, bytes.size(), ends, limits);
    for (const size_t step : {size_t{1}, 2 + below(9)}) {
      const Read cut = read(bytes, step, ends, limits);
      ASSERT_EQ(cut.state, whole.state) << bytes;
      ASSERT_EQ(cut.fault, whole.fault) << bytes;
      ASSERT_EQ(cut.body, whole.body) << bytes;
      ASSERT_EQ(cut.status, whole.status) << bytes;
      if (whole.state != State::done) continue;
      ASSERT_EQ(cut.rest, whole.rest) << bytes;
    }
    n_done += whole.state == State::done;
    n_failed += whole.state == State::failed;
  }
  EXPECT_GT(n_done, 2000);
  EXPECT_GT(n_failed, 2000);
}

TEST(ResponseParser, AnEndTooEarlyIsAFault) {
  for (const std::string_view bytes :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}) {
    const Read got = read(bytes, 3, true);
    EXPECT_EQ(got.state, State::failed) << bytes;
    EXPECT_NE(got.fault.find("ended before"), std::string::npos);
  }
}

}  // namespace
}  // namespace quire
