// Who may ask: keys with scopes and limits, names and origins, the operator's address.
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kPath = "/v1/completions";
constexpr const char* kBody = R"({"prompt":"x","max_tokens":4})";
constexpr int64_t kSecond = 1'000'000'000;

HttpHeaders bearer(const std::string& key) { return {{"Authorization", "Bearer " + key}}; }
std::string code_of(const HttpResponse& r) { return text_at(json_at(parse_json(r.body), "error", "code")); }

ApiKey limited(KeyLimits limits) {
  ApiKey key = plain_key("alice", "a-1", true, false);
  key.limits = limits;
  return key;
}

struct Holder {
  explicit Holder(KeyLimits limits) : ring({limited(limits)}, metrics) { holder = ring.find("a-1"); }
  // 0: admitted; otherwise when to come back, −1 where the engine says.
  int64_t enter(int64_t now_ns) {
    KeyLease lease;
    const auto refused = holder->enter(now_ns, lease);
    if (!refused) leases.push_back(std::move(lease));
    return !refused ? 0 : refused->retry_after_s > 0 ? refused->retry_after_s : -1;
  }
  Metrics metrics;
  KeyRing ring;
  std::shared_ptr<KeyHolder> holder;
  std::vector<KeyLease> leases;
};

TEST(Keys, AreFoundByTheirTextAndByNothingElse) {
  Metrics metrics;
  KeyRing ring({plain_key("one", "k-1", true, false), plain_key("two", "k-2", false, true)}, metrics);
  ASSERT_NE(ring.find("k-2"), nullptr);
  EXPECT_EQ(ring.find("k-2")->key().name, "two");
  for (const char* wrong : {"", "k", "k-", "k-11", "K-1", "one"}) EXPECT_EQ(ring.find(wrong), nullptr) << wrong;
  EXPECT_TRUE(ring.has_admin());
  EXPECT_EQ(metrics.expose().find("k-1"), std::string::npos);
}

TEST(Keys, RequestsPerMinuteFillEvenly) {
  Holder h({.requests_per_minute = 6});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(h.enter(kSecond), 0);
  EXPECT_EQ(h.enter(kSecond), 10) << "one every ten seconds";
  EXPECT_EQ(h.enter(kSecond + 4 * kSecond), 6);
  EXPECT_EQ(h.enter(kSecond + 10 * kSecond), 0);
  EXPECT_EQ(h.enter(kSecond + 10 * kSecond), 10);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(h.enter(kSecond + 3600 * kSecond), 0);
  EXPECT_NE(h.enter(kSecond + 3600 * kSecond), 0) << "an idle hour saves no more than a minute's worth";
}

TEST(Keys, TokensArePaidWhenTheyAreKnown) {
  Holder h({.tokens_per_minute = 60});
  EXPECT_EQ(h.enter(kSecond), 0);
  h.holder->charge_prompt(20);
  EXPECT_EQ(h.enter(kSecond), 0);
  h.holder->charge_generated(100);
  EXPECT_EQ(h.enter(kSecond), 61) << "60 in debt, and one to begin with";
  EXPECT_EQ(h.enter(61 * kSecond), 1);
  EXPECT_EQ(h.enter(62 * kSecond), 0);
}

TEST(Keys, RequestsAtOnceAreCountedUntilTheirEnd) {
  Holder h({.concurrent = 2});
  EXPECT_EQ(h.enter(kSecond), 0);
  EXPECT_EQ(h.enter(kSecond), 0);
  EXPECT_EQ(h.enter(kSecond), -1);
  h.leases.pop_back();
  EXPECT_EQ(h.enter(kSecond), 0);
}

TEST(Keys, SequencesAndTokensUnderWayCountUntilTheirEnd) {
  Holder h({.concurrent = 4, .tokens_under_way = 1000});
  KeyLease one, two;
  ASSERT_FALSE(h.holder->enter(kSecond, one));
  const auto many = h.holder->take(128, 128, one);
  ASSERT_TRUE(many);
  EXPECT_EQ(many->error.status, 400) << "not even alone";
  EXPECT_EQ(many->error.message,
            "this key's limit of 4 sequences under way (concurrent) is less than the 128 that the request asks for");
  const auto endless = h.holder->take(1, 1001, one);
  ASSERT_TRUE(endless);
  EXPECT_EQ(endless->error.status, 400);
  EXPECT_EQ(endless->error.message,
            "this key's limit of 1000 tokens under way (tokens_under_way) is less than the 1001 that the request asks "
            "for: its prompts and max_tokens, without which the rest of the context counts");
  EXPECT_FALSE(h.holder->take(3, 600, one));
  ASSERT_FALSE(h.holder->enter(kSecond, two));
  const auto third = h.holder->take(2, 10, two);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->error.status, 429);
  EXPECT_EQ(third->error.message,
            "this key's limit of 4 sequences under way (concurrent) is reached: 3 are, the request asks for 2");
  const auto long_one = h.holder->take(1, 401, two);
  ASSERT_TRUE(long_one);
  EXPECT_EQ(
      long_one->error.message,
      "this key's limit of 1000 tokens under way (tokens_under_way) is reached: 600 are, the request asks for 401");
  EXPECT_FALSE(h.holder->take(1, 400, two));
  EXPECT_EQ(h.enter(kSecond), -1) << "four are under way";
  one = {};
  EXPECT_EQ(h.enter(kSecond), 0);
}

TEST(KeyFile, ReadsWhatItDocuments) {
  const std::string hash = hex_of(sha256("a-1"));
  const auto keys = read_keys(
      R"({"keys":[{"name":"alice","sha256":")" + hash +
      R"(","scopes":["inference","admin"],"requests_per_minute":60,"concurrent":2,"tokens_under_way":9,"weight":4},)"
      R"({"name":"bob","sha256":")" +
      std::string(64, '0') + R"("}]})");
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_TRUE((*keys)[0].admin);
  EXPECT_EQ((*keys)[0].limits.requests_per_minute, 60);
  EXPECT_EQ((*keys)[0].limits.tokens_per_minute, 0);
  EXPECT_EQ((*keys)[0].limits.tokens_under_way, 9);
  EXPECT_EQ((*keys)[0].weight, 4);
  EXPECT_EQ((*keys)[1].weight, 1);
  EXPECT_TRUE((*keys)[1].inference);
  EXPECT_FALSE((*keys)[1].admin);
}

TEST(KeyFile, RefusesWithEntryAndField) {
  const std::string hash(64, 'a');
  const auto error = [](const std::string& entry) {
    const auto keys = read_keys(R"({"keys":[)" + entry + "]}");
    return keys ? std::string() : keys.error().message;
  };
  const std::string good = R"({"name":"a","sha256":")" + hash + R"("})";
  EXPECT_EQ(error(good), "");
  for (const auto& [entry, want] : std::vector<std::pair<std::string, std::string>>{
           {"5", "keys[0]: must be an object"},
           {R"({"name":"a"})", "keys[0]: sha256 is missing"},
           {R"({"sha256":")" + hash + R"("})", "keys[0]: name is missing"},
           {R"({"name":"a b"})", "keys[0]: name must be"},
           {R"({"name":"a","sha256":"12"})", "keys[0]: sha256 must be 64"},
           {R"({"name":"a","key":"secret"})", "keys[0]: key is no field"},
           {R"({"name":"a","scopes":["root"]})", "keys[0]: scopes must be"},
           {R"({"name":"a","scopes":[]})", "keys[0]: scopes must be"},
           {R"({"name":"a","concurrent":0})", "keys[0]: concurrent must be 1 to"},
           {R"({"name":"a","weight":101})", "keys[0]: weight must be 1 to 100, got 101"},
           {R"({"name":"a","weight":1.5})", "keys[0]: weight must be 1 to 100, got 1.5"},
           {good + "," + good, "keys[1]: has the name or the sha256 of another"},
       })
    EXPECT_EQ(error(entry).substr(0, want.size()), want) << entry;
  EXPECT_FALSE(read_keys(R"({"keys":[]})"));
  EXPECT_FALSE(read_keys("[]"));
}

TEST(Access, ALimitIsA429InTheDialectsShape) {
  TestServer s;
  s.options.keys = {limited({.requests_per_minute = 2})};
  s.start();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(s.post(kPath, kBody, bearer("a-1")).status, 200);
  const HttpResponse openai = s.post(kPath, kBody, bearer("a-1"));
  EXPECT_EQ(openai.status, 429);
  EXPECT_EQ(code_of(openai), "rate_limit_exceeded");
  EXPECT_NE(openai.body.find("2 requests per minute (requests_per_minute)"), std::string::npos);
  ASSERT_NE(openai.header("retry-after"), nullptr);
  EXPECT_LE(std::stoi(*openai.header("retry-after")), 30);
  const HttpResponse anthropic = s.post("/v1/messages", "{}", {{"x-api-key", "a-1"}});
  EXPECT_EQ(anthropic.status, 429);
  EXPECT_EQ(text_at(json_at(parse_json(anthropic.body), "type")), "error");
  const HttpResponse ollama = s.post("/api/chat", "{}", bearer("a-1"));
  EXPECT_EQ(ollama.status, 429);
  EXPECT_NE(json_at(parse_json(ollama.body), "error").as_string(), nullptr);
  EXPECT_EQ(s.get("/v1/models", bearer("a-1")).status, 200) << "what costs nothing is not counted";
  EXPECT_EQ(s.metrics.counter("quire_key_requests_total", "", {{"key", "alice"}}).value(), 2U);
  EXPECT_EQ(
      s.metrics.counter("quire_key_limited_total", "", {{"key", "alice"}, {"limit", "requests_per_minute"}}).value(),
      3U);
  EXPECT_EQ(s.metrics.counter("quire_key_tokens_total", "", {{"key", "alice"}, {"kind", "generation"}}).value(), 8U);
}

// A router asks for a prompt's tokens with the client's key, beside the request itself.
TEST(Access, AQuestionForTokensTakesNothingOfWhatAKeyMay) {
  TestServer s;
  s.options.keys = {limited({.requests_per_minute = 1, .concurrent = 1})};
  s.start();
  RawClient c(s.serving->port());
  c.send(
      "POST /v1/completions/render HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-1\r\nContent-Length: 100\r\n\r\n{");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(s.post("/v1/completions/render", kBody, bearer("a-1")).status, 200) << i;
  EXPECT_EQ(s.post("/v1/completions/render", kBody, bearer("a-2")).status, 401);
  EXPECT_EQ(s.post(kPath, kBody, bearer("a-1")).status, 200);
  EXPECT_EQ(s.post(kPath, kBody, bearer("a-1")).status, 429);
  EXPECT_EQ(s.post("/v1/completions/render", kBody, bearer("a-1")).status, 200);
  EXPECT_EQ(s.metrics.counter("quire_key_requests_total", "", {{"key", "alice"}}).value(), 1U);
}

// The head alone says that nobody will read the body: the answer comes before it, and no 100 Continue.
TEST(Access, WhatIsRefusedIsRefusedBeforeItsBody) {
  TestServer s;
  s.options.keys = {limited({.requests_per_minute = 1})};
  s.start();
  const auto status = [&](const std::string& line, const std::string& fields) {
    RawClient c(s.serving->port());
    c.send(line + " HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 8000000\r\n" + fields + "\r\n");
    return c.read_until("\r\n").substr(9, 3);
  };
  const std::string post = std::string("POST ") + kPath, host = "Host: x\r\n", key = "Authorization: Bearer a-1\r\n";
  EXPECT_EQ(status(post, "Host: evil.example\r\n" + key), "403");
  EXPECT_EQ(status(post, host + key + "Origin: https://evil.example\r\n"), "403");
  EXPECT_EQ(status("POST /nothing", host + key), "404");
  EXPECT_EQ(status(std::string("PUT ") + kPath, host + key), "405");
  EXPECT_EQ(status(post, host), "401");
  EXPECT_EQ(status(post, host + "x-api-key: a-2\r\n"), "401");
  EXPECT_EQ(status(post, host + key + "Content-Type: text/plain\r\n"), "415");
  EXPECT_EQ(status("GET /health", host), "200") << "an answer that needs no body does not wait for it";
  EXPECT_EQ(s.metrics.counter("quire_key_requests_total", "", {{"key", "alice"}}).value(), 0U)
      << "what is refused is not charged";
  EXPECT_EQ(s.post(kPath, kBody, bearer("a-1")).status, 200);
  EXPECT_EQ(status(post, host + key), "429");
  EXPECT_EQ(s.metrics.counter("quire_key_requests_total", "", {{"key", "alice"}}).value(), 1U);
}

TEST(Access, ABodyHoldsItsPlaceUntilItsClientLeaves) {
  TestServer s;
  s.options.keys = {limited({.concurrent = 1})};
  s.start();
  RawClient c(s.serving->port());
  c.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-1\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_TRUE(eventually([&] { return s.post(kPath, kBody, bearer("a-1")).status == 429; }));
  c.close();
  EXPECT_TRUE(eventually([&] { return s.post(kPath, kBody, bearer("a-1")).status == 200; }));
}

TEST(Access, AStreamHoldsItsPlaceUntilItsClientLeaves) {
  TestServer s;
  s.options.keys = {limited({.concurrent = 1})};
  s.engine.pause(true);
  s.start();
  RawClient c(s.serving->port());
  const std::string body = kBody;
  c.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-1\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 1; }));
  EXPECT_EQ(s.post(kPath, kBody, bearer("a-1")).status, 429);
  c.close();
  EXPECT_TRUE(eventually([&] { return s.engine.n_running() == 0; }));
  s.engine.pause(false);
  EXPECT_EQ(s.post(kPath, kBody, bearer("a-1")).status, 200);
}

TEST(Access, TheSequencesOfARequestCountForItsKey) {
  TestServer s;
  s.options.keys = {limited({.concurrent = 8, .tokens_under_way = 5000})};
  s.start();
  const auto body = [](const std::string& more) { return R"({"prompt":["x","y"],"max_tokens":4)" + more + "}"; };
  const HttpResponse many = s.post(kPath, body(R"(,"n":64)"), bearer("a-1"));
  EXPECT_EQ(many.status, 400);
  EXPECT_EQ(many.header("retry-after"), nullptr) << "later would be no better";
  EXPECT_NE(many.body.find("8 sequences under way (concurrent) is less than the 128 that the request asks for"),
            std::string::npos)
      << many.body;
  EXPECT_EQ(s.engine.stats().n_submitted, 0) << "none of them ran";
  EXPECT_EQ(s.post(kPath, body(R"(,"n":4)"), bearer("a-1")).status, 200);
  EXPECT_EQ(s.post(kPath, body(R"(,"n":1,"best_of":5)"), bearer("a-1")).status, 400);
  const HttpResponse full = s.post(kPath, R"({"prompt":["x","y"],"max_tokens":3000})", bearer("a-1"));
  EXPECT_EQ(full.status, 400) << "what answers may come to counts";
  EXPECT_NE(full.body.find("5000 tokens under way (tokens_under_way)"), std::string::npos) << full.body;
  EXPECT_EQ(s.post(kPath, body(R"(,"n":4)"), bearer("a-1")).status, 200) << "what is over counts no more";
}

TEST(Access, ScopesAreKeptApart) {
  TestServer s;
  s.options.keys = {plain_key("user", "u", true, false), plain_key("root", "r", false, true)};
  s.start();
  EXPECT_EQ(s.post(kPath, kBody, bearer("u")).status, 200);
  EXPECT_EQ(s.get("/metrics", bearer("u")).status, 403);
  EXPECT_EQ(s.get("/metrics", bearer("r")).status, 200);
  EXPECT_EQ(code_of(s.post(kPath, kBody, bearer("r"))), "insufficient_scope");
  EXPECT_EQ(s.get("/metrics").status, 401);
}

TEST(Access, WithAKeyForTheOperatorAloneOthersNeedNone) {
  TestServer s;
  s.options.keys = {plain_key("root", "r", false, true)};
  s.start();
  EXPECT_EQ(s.post(kPath, kBody).status, 200);
  EXPECT_EQ(s.get("/metrics").status, 401);
}

TEST(Access, AnAddressOfItsOwnTakesWhatIsTheOperators) {
  TestServer s;
  s.options.admin_port = 0;
  s.start();
  EXPECT_EQ(s.get("/metrics").status, 404);
  const std::string url = s.serving->admin_url();
  const auto answers = [&](const std::string& path, const std::string& host, const std::string& status) {
    RawClient admin(std::stoi(url.substr(url.rfind(':') + 1)));
    admin.send("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    return admin.read_until("\r\n").starts_with("HTTP/1.1 " + status);
  };
  EXPECT_TRUE(answers("/metrics", "127.0.0.1", "200"));
  EXPECT_TRUE(answers("/health", "127.0.0.1", "200"));
  EXPECT_TRUE(answers("/v1/models", "127.0.0.1", "404"));
  EXPECT_TRUE(answers("/metrics", "evil.example", "403"));
}

TEST(Access, WhoComesThroughAProxyIsNotThisMachine) {
  TestServer s;
  s.start();
  EXPECT_EQ(s.get("/metrics").status, 200);
  const HttpResponse r = s.get("/metrics", {{"X-Forwarded-For", "10.0.0.1"}});
  EXPECT_EQ(r.status, 403);
  EXPECT_EQ(code_of(r), "local_only");
  EXPECT_EQ(s.get("/v1/models", {{"X-Forwarded-For", "10.0.0.1"}}).status, 200);
}

HttpRequest asking(std::string host, std::string origin) {
  HttpRequest r;
  r.method = "POST";
  r.path = "/v1/completions";
  if (!host.empty()) r.headers.push_back({"host", std::move(host)});
  if (!origin.empty()) r.headers.push_back({"origin", std::move(origin)});
  return r;
}

TEST(Guard, OnLoopbackOnlyOwnNamesAndOwnPages) {
  const Guard guard({true, {"chat.example"}, {"https://friend.example"}});
  const auto code = [&](const char* host, const char* origin) {
    const auto error = guard.check(asking(host, origin));
    return error ? error->code : "";
  };
  for (const char* host :
       {"localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "::1", "[::ffff:127.0.0.1]:1",
        "a.localhost:3", "[::1]", "localhost:", "chat.example", "Chat.Example:443", ""})
    EXPECT_EQ(code(host, ""), "") << host;
  for (const char* host : {"evil.example",
                           "evil.example:8080",
                           "127.0.0.1.evil.example",
                           "localhost.evil.example",
                           "192.168.1.2",
                           "[fe80::1]:8080",
                           "[",
                           "notlocalhost",
                           "127.evil",
                           "[::1]evil",
                           "[::1]:evil",
                           "[::1",
                           "localhost:evil",
                           "localhost:80evil",
                           "127.0.0.1:8080:1",
                           "[localhost]",
                           "[127.0.0.1]",
                           ":80",
                           "[]",
                           "localhost:80@evil.example",
                           "::1:evil"})
    EXPECT_EQ(code(host, ""), "host_not_allowed") << host;
  EXPECT_EQ(code("localhost:8080", "http://localhost:8080"), "");
  EXPECT_EQ(code("chat.example", "https://chat.example"), "");
  EXPECT_EQ(code("localhost:8080", "https://friend.example"), "");
  for (const char* origin : {"http://evil.example", "null", "http://localhost:9999", "file://", "localhost:8080"})
    EXPECT_EQ(code("localhost:8080", origin), "origin_not_allowed") << origin;
  EXPECT_EQ(Guard({false, {}, {}}).check(asking("evil.example", "http://evil.example")), std::nullopt)
      << "a server for a network does not know its names";
}

TEST(Guard, PagesElsewhereAreAnsweredWhenAllowed) {
  TestServer s;
  s.options.guard.origins = {"https://friend.example"};
  s.start();
  const HttpHeaders friendly{{"Origin", "https://friend.example"}};
  const HttpResponse r = s.post(kPath, kBody, friendly);
  EXPECT_EQ(r.status, 200);
  ASSERT_NE(r.header("access-control-allow-origin"), nullptr);
  EXPECT_EQ(*r.header("access-control-allow-origin"), "https://friend.example");
  EXPECT_EQ(*r.header("access-control-expose-headers"),
            "Retry-After, x-quire-resumable, x-quire-route, x-quire-stream, x-quire-stream-secret, x-quire-warning, "
            "x-quire-worker, x-request-id");
  EXPECT_NE(s.post(kPath, "{", friendly).header("access-control-allow-origin"), nullptr) << "refusals too";
  auto preflight = s.client().request({"OPTIONS",
                                       kPath,
                                       {{"Origin", "https://friend.example"},
                                        {"Access-Control-Request-Method", "POST"},
                                        {"Access-Control-Request-Headers", "authorization,content-type"}},
                                       ""});
  ASSERT_TRUE(preflight);
  EXPECT_EQ(preflight->status, 204);
  EXPECT_EQ(*preflight->header("access-control-allow-headers"), "authorization,content-type");
  EXPECT_EQ(s.post(kPath, kBody, {{"Origin", "https://evil.example"}}).status, 403);
  EXPECT_EQ(s.post(kPath, kBody).header("access-control-allow-origin"), nullptr);
}

TEST(Guard, OriginsAreCheckedWhenGiven) {
  for (const char* good : {"*", "https://a.example", "http://localhost:3000"}) EXPECT_TRUE(check_origin(good)) << good;
  for (const char* bad : {"", "a.example", "https://a.example/", "https://", "ftp://a.example", "https://*.example"})
    EXPECT_FALSE(check_origin(bad)) << bad;
}

}  // namespace
}  // namespace quire
