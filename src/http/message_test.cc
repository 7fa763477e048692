#include "http/message.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "http/error_form.h"
#include "http/response_head.h"

namespace quire {
namespace {

TEST(Message, ErrorBodyIsOpenAiFormAndAlwaysJson) {
  EXPECT_EQ(error_body({400, "bad \"x\"\n", "invalid_request_error", "n", "too_big"}),
            R"({"error":{"message":"bad \"x\"\n","type":"invalid_request_error","param":"n","code":"too_big"}})");
  const std::string body = error_body({404, std::string("\xff\x00\x1b", 3), "t", "", ""});
  const auto json = Json::parse(body);
  ASSERT_TRUE(json) << body;
  EXPECT_TRUE(json->find("error")->find("param")->is_null());
  EXPECT_TRUE(json->find("error")->find("code")->is_null());
}

TEST(ErrorForm, FollowsTheDialectOfThePath) {
  const HttpError error{404, "no \"x\"", "not_found_error", "", "unknown_path"};
  const std::string anthropic = R"({"type":"error","error":{"type":"not_found_error","message":"no \"x\""}})";
  EXPECT_EQ(error_form("/v1/messages")(error), anthropic);
  EXPECT_EQ(error_form("/v1/messages/count_tokens")(error), anthropic);
  EXPECT_EQ(error_form("/api/chat")(error), R"({"error":"no \"x\""})");
  for (const char* openai : {"", "/", "/v1/chat/completions", "/v1/messages2", "/api", "/apis/x"})
    EXPECT_EQ(error_form(openai)(error), error_body(error)) << openai;
  const auto type_at = [](int status) {
    return *Json::parse(anthropic_error({status, "m", "", "", ""}))->find("error")->find("type");
  };
  EXPECT_EQ(type_at(400), Json("invalid_request_error"));
  EXPECT_EQ(type_at(401), Json("authentication_error"));
  EXPECT_EQ(type_at(403), Json("permission_error"));
  EXPECT_EQ(type_at(413), Json("request_too_large"));
  EXPECT_EQ(type_at(429), Json("rate_limit_error"));
  EXPECT_EQ(type_at(500), Json("api_error"));
  EXPECT_EQ(type_at(503), Json("overloaded_error"));
}

TEST(Message, PercentDecoding) {
  EXPECT_EQ(percent_decode("a%2Fb%20c+d", false), "a/b c+d");
  EXPECT_EQ(percent_decode("a+b%2b", true), "a b+");
  for (const char* bad : {"%", "%1", "%g0", "%0g", "a%", "%%41"})
    EXPECT_EQ(percent_decode(bad, false), std::nullopt) << bad;
}

TEST(Message, ListTokensCompareWithoutCaseAndWhole) {
  EXPECT_TRUE(has_list_token("Keep-Alive, CLOSE", "close"));
  EXPECT_TRUE(has_list_token("close", "close"));
  EXPECT_FALSE(has_list_token("closed, not-close", "close"));
  EXPECT_FALSE(has_list_token("", "close"));
}

TEST(Message, QueryParameters) {
  HttpRequest r;
  r.query = "a=1&b=x%20y+z&flag&a=2&bad=%zz&%61b=3";
  EXPECT_EQ(r.query_param("a"), "1");
  EXPECT_EQ(r.query_param("b"), "x y z");
  EXPECT_EQ(r.query_param("flag"), "");
  EXPECT_EQ(r.query_param("ab"), "3");
  EXPECT_EQ(r.query_param("bad"), std::nullopt);
  EXPECT_EQ(r.query_param("none"), std::nullopt);
}

TEST(Message, TargetsSplitAndDecode) {
  const auto parts = [](std::string_view t) { return split_target(t, false); };
  EXPECT_EQ(parts("/v1/models/a%2Fb?x=%31")->path, "/v1/models/a/b");
  EXPECT_EQ(parts("/v1/models/a%2Fb?x=%31")->query, "x=%31");
  EXPECT_EQ(parts("http://host:80/p?q")->path, "/p");
  EXPECT_EQ(parts("HTTPS://host")->path, "/");
  EXPECT_EQ(parts("http://host?q")->query, "q");
  EXPECT_EQ(parts("/a..b/.c")->path, "/a..b/.c");
  EXPECT_EQ(split_target("*", true)->path, "*");
  for (const char* bad : {"*", "", "x", "host:80", "http:///p", "/a#b", "/%00", "/%0a", "/%7f", "/../x", "/a/..",
                          "/..%2fetc", "/%2e%2e/x", "/./x", "/a/%2E", "/%", "ftp://h/p"})
    EXPECT_FALSE(parts(bad)) << bad;
}

TEST(ResponseHead, SaysWhatItIsToldAndNothingTwice) {
  std::string out;
  const HttpHeaders headers = {
      {"X-A", "1"}, {"content-length", "99"}, {"Transfer-Encoding", "x"}, {"X-Id", "a\r\nSet-Cookie: b"}};
  append_head(out, {200, &headers, "D", 5, false, true, false});
  EXPECT_EQ(out,
            "HTTP/1.1 200 OK\r\nX-A: 1\r\nX-Id: a  Set-Cookie: b\r\nDate: D\r\nContent-Length: 5\r\nConnection: "
            "close\r\n\r\n");
  out.clear();
  append_head(out, {299, nullptr, "D", -1, true, false, false});
  EXPECT_EQ(out, "HTTP/1.1 299 Unknown\r\nDate: D\r\nTransfer-Encoding: chunked\r\n\r\n");
}

TEST(ResponseHead, Chunks) {
  ChunkHead buffer;
  EXPECT_EQ(chunk_head(buffer, 26), "1a\r\n");
  EXPECT_EQ(chunk_head(buffer, SIZE_MAX), "ffffffffffffffff\r\n");
}

TEST(ResponseHead, Dates) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(http_date(1709164800), "Thu, 29 Feb 2024 00:00:00 GMT");
}

}  // namespace
}  // namespace quire
