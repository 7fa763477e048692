// What a request shares with others, what it is told it cost, and when a refused one should come back.
#include <atomic>
#include <future>

#include "serve/load_estimate.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr char kPath[] = "/v1/completions";

uint64_t salt_of(TestServer& s, const std::string& body, HttpHeaders headers) {
  uint64_t out = 1;
  s.engine.script = [&](const Request& r) {
    out = r.cache_salt;
    return byte_tokens("x");
  };
  EXPECT_EQ(s.post(kPath, body, std::move(headers)).status, 200);
  return out;
}

TEST(Tenant, AKeyIsPartOfTheSalt) {
  TestServer s;
  s.start();
  const std::string plain = R"({"prompt":"x"})", salted = R"({"prompt":"x","cache_salt":"s"})";
  const HttpHeaders one{{"Authorization", "Bearer one"}}, two{{"Authorization", "Bearer two"}};
  EXPECT_EQ(salt_of(s, plain, {}), 0U);
  const uint64_t plain_one = salt_of(s, plain, one), salted_one = salt_of(s, salted, one);
  EXPECT_NE(plain_one, 0U);
  EXPECT_EQ(plain_one, salt_of(s, plain, one));
  EXPECT_EQ(plain_one, salt_of(s, plain, {{"x-api-key", "one"}})) << "however it is sent";
  EXPECT_NE(plain_one, salt_of(s, plain, two));
  EXPECT_NE(plain_one, salted_one);
  EXPECT_NE(salted_one, salt_of(s, salted, two));
  EXPECT_NE(salted_one, salt_of(s, salted, {}));
}

TEST(Tenant, TurnsAreAKeysOrWithoutKeysAnAddresss) {
  const HttpHeaders one{{"Authorization", "Bearer one"}}, two{{"Authorization", "Bearer two"}};
  const auto tenant_of = [](TestServer& s, const HttpHeaders& headers) {
    uint64_t out = 0;
    s.engine.script = [&](const Request& r) {
      out = r.tenant;
      return byte_tokens("x");
    };
    EXPECT_EQ(s.post(kPath, R"({"prompt":"x"})", headers).status, 200);
    return out;
  };
  TestServer keyed;
  keyed.options.keys = {plain_key("a", "one", true, false), plain_key("b", "two", true, false)};
  keyed.start();
  const uint64_t first = tenant_of(keyed, one);
  EXPECT_NE(first, 0U);
  EXPECT_EQ(tenant_of(keyed, one), first);
  EXPECT_NE(tenant_of(keyed, two), first);
  TestServer open;
  open.start();
  const uint64_t here = tenant_of(open, {});
  EXPECT_NE(here, 0U);
  EXPECT_EQ(tenant_of(open, one), here) << "a key that nobody asked for is worth no turn of its own";
}

// Five requests of one key wait to be read when another's comes: it is the second that is read, not the sixth.
TEST(Tenant, KeysTakeTurnsInBeingRead) {
  TestServer s;
  s.options.keys = {plain_key("a", "one", true, false), plain_key("b", "two", true, false)};
  s.options.n_prep_threads = 1;
  std::promise<void> gate;
  std::mutex mu;
  std::vector<uint64_t> order;
  s.engine.script = [&, open = gate.get_future().share()](const Request& r) {
    {
      const std::lock_guard lock(mu);
      order.push_back(r.tenant);
    }
    open.wait();  // holds the only prep thread in submit
    return byte_tokens("x");
  };
  s.start();
  std::vector<std::future<HttpResponse>> answers;
  const auto post = [&](const std::string& key) {
    answers.push_back(std::async(std::launch::async, [&s, key] {
      return s.post(kPath, R"({"prompt":"x"})", {{"Authorization", "Bearer " + key}});
    }));
  };
  const auto waiting = [&](int n) {
    const std::string line = "quire_num_requests_preparing " + std::to_string(n) + "\n";
    return eventually(
        [&] { return s.get("/metrics", {{"Authorization", "Bearer one"}}).body.find(line) != std::string::npos; });
  };
  post("one");
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mu);
    return order.size() == 1;
  }));
  for (int i = 0; i < 5; ++i) post("one");
  ASSERT_TRUE(waiting(5));
  post("two");
  ASSERT_TRUE(waiting(6));
  gate.set_value();
  for (auto& answer : answers) EXPECT_EQ(answer.get().status, 200);
  ASSERT_EQ(order.size(), 7U);
  EXPECT_EQ(order[1], order[0]);
  EXPECT_NE(order[2], order[0]);
  EXPECT_EQ(order[3], order[0]);
}

// Questions for tokens take none of a key's limits. They wait in the same queue as all that is read, in which nobody
// gets all places: those of one key leave some to others.
TEST(Tenant, AFloodOfQuestionsForTokensLeavesPlacesToOthers) {
  TestServer s;
  ApiKey flooding = plain_key("a", "one", true, false);
  flooding.limits = {.requests_per_minute = 2, .concurrent = 2};
  s.options.keys = {flooding, plain_key("b", "two", true, false)};
  s.options.n_prep_threads = 1;
  constexpr int kPlaces = 12, kOfOne = 11;  // turn_queue.h
  s.options.limits.prep_queue = kPlaces;
  std::promise<void> gate;
  std::atomic<int> n_read{0};
  s.engine.script = [&, open = gate.get_future().share()](const Request&) {
    ++n_read;
    open.wait();  // holds the only prep thread in submit
    return byte_tokens("x");
  };
  s.start();
  std::vector<std::future<HttpResponse>> answers;
  const auto post = [&](const std::string& path, const std::string& key) {
    answers.push_back(std::async(std::launch::async, [&s, path, key] {
      return s.post(path, R"({"prompt":"x"})", {{"Authorization", "Bearer " + key}});
    }));
  };
  const std::string render = std::string(kPath) + "/render";
  const auto waiting = [&](int n) {
    const std::string line = "quire_num_requests_preparing " + std::to_string(n) + "\n";
    return eventually(
        [&] { return s.get("/metrics", {{"Authorization", "Bearer one"}}).body.find(line) != std::string::npos; });
  };
  post(kPath, "one");
  ASSERT_TRUE(eventually([&] { return n_read == 1; }));
  for (int i = 0; i < kOfOne; ++i) post(render, "one");
  ASSERT_TRUE(waiting(kOfOne));
  const HttpResponse refused = s.post(render, R"({"prompt":"x"})", {{"Authorization", "Bearer one"}});
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("12 requests (prep_queue)"), std::string::npos) << refused.body;
  post(kPath, "two");
  ASSERT_TRUE(waiting(kPlaces));
  gate.set_value();
  for (auto& answer : answers) EXPECT_EQ(answer.get().status, 200);
}

TEST(Tenant, OnlyTheOperatorsPromptIsPublic) {
  TestServer s;
  s.options.public_prompts = {"Be kind.", "Be kind and brief."};
  s.start();
  std::vector<Token> prompt;
  int n_public = -1;
  uint64_t salt = 0;
  s.engine.script = [&](const Request& r) {
    prompt = r.prompt;
    n_public = r.n_public;
    salt = r.cache_salt;
    return byte_tokens("x");
  };
  const HttpHeaders key{{"Authorization", "Bearer one"}};
  const auto ask = [&](const std::string& path, const std::string& body) {
    EXPECT_EQ(s.post(path, body, key).status, 200);
    EXPECT_NE(salt, 0U) << "what is not public stays the key's";
    return n_public;
  };
  EXPECT_EQ(ask(kPath, R"({"prompt":"Be kind and quick"})"), 1 + 12) << "BOS and what both have";
  EXPECT_EQ(ask(kPath, R"({"prompt":"Be kind and brief. Now?"})"), 1 + 18);
  EXPECT_EQ(ask(kPath, R"({"prompt":"Hello"})"), 1) << "BOS alone";
  const auto chat = [](const std::string& system, const std::string& user) {
    return R"({"messages":[{"role":"system","content":")" + system + R"("},{"role":"user","content":")" + user +
           R"("}]})";
  };
  const int n = ask("/v1/chat/completions", chat("Be kind.", "Secret"));
  const std::vector<Token> first = prompt;
  EXPECT_GT(n, 1 + 8);
  EXPECT_EQ(ask("/v1/chat/completions", chat("Be kind.", "Other")), n);
  ASSERT_GT(std::min(prompt.size(), first.size()), static_cast<size_t>(n));
  EXPECT_NE(prompt[static_cast<size_t>(n)], first[static_cast<size_t>(n)]) << "up to where users' texts begin";
  EXPECT_LT(ask("/v1/chat/completions", chat("Be cruel.", "Secret")), 1 + 8);
}

TEST(Tenant, TheUsageTellsTheCostOnRequestOnly) {
  TestServer s;
  s.engine.cost.computed = {7, 2, 1, 0};
  s.engine.cost.n_reused = 32;
  s.engine.cost.n_wasted = 3;
  s.engine.cost.block_ns = 1'500'000'000;
  s.engine.cost.prefill_ns = 250'000'000;
  s.engine.cost.decode_ns = 1;
  s.engine.cost.stage_ns = {1'000, 2'000, 500'000'000, 3'000, 0};
  s.start();
  const auto usage = [&](const std::string& body) { return json_at(parse_json(s.post(kPath, body).body), "usage"); };
  EXPECT_EQ(usage(R"({"prompt":"x"})").find("cost"), nullptr);
  EXPECT_EQ(usage(R"({"prompt":"x","include_cost":false})").find("cost"), nullptr);
  const Json cost = json_at(usage(R"({"prompt":"x","include_cost":true,"n":2})"), "cost");
  EXPECT_EQ(int_at(json_at(cost, "computed_tokens")), 20) << "of both choices";
  EXPECT_EQ(int_at(json_at(cost, "recomputed_tokens")), 4);
  EXPECT_EQ(int_at(json_at(cost, "draft_tokens")), 2);
  EXPECT_EQ(int_at(json_at(cost, "wasted_tokens")), 6);
  EXPECT_EQ(int_at(json_at(cost, "reused_tokens")), 64);
  EXPECT_EQ(json_at(cost, "block_seconds").number(), 3.0);
  EXPECT_EQ(json_at(cost, "prefill_seconds").number(), 0.5);
  EXPECT_EQ(json_at(cost, "decode_seconds").number(), 2e-9);
  EXPECT_EQ(json_at(cost, "cpu_seconds", "plan").number(), 2e-6);
  EXPECT_EQ(json_at(cost, "cpu_seconds", "batch").number(), 4e-6);
  EXPECT_EQ(json_at(cost, "cpu_seconds", "forward").number(), 1.0);
  EXPECT_EQ(json_at(cost, "cpu_seconds", "sample").number(), 6e-6);
  const auto events =
      s.stream(kPath, R"({"prompt":"x","stream":true,"include_cost":true,"stream_options":{"include_usage":true}})");
  ASSERT_GE(events.list.size(), 2U);
  const Json last = parse_json(events.list[events.list.size() - 2].data);
  EXPECT_EQ(int_at(json_at(last, "usage", "cost", "computed_tokens")), 10);
}

TEST(Tenant, RetryAfterIsWhatTheEnginePredicts) {
  TestServer s;
  s.engine.options_.max_queue = 0;
  s.engine.queue_ns = 17'200'000'000;
  s.start();
  const HttpResponse r = s.post(kPath, R"({"prompt":"x"})");
  EXPECT_EQ(r.status, 429);
  ASSERT_NE(r.header("retry-after"), nullptr);
  EXPECT_EQ(*r.header("retry-after"), "18");
}

TEST(LoadEstimate, GoesByTheGapsWhereTheEngineCannotSay) {
  LoadEstimate load;
  EXPECT_EQ(load.retry_after_s(0, 100, 60), 1);
  load.finished(1'000'000'000);
  load.finished(3'000'000'000);
  EXPECT_EQ(load.retry_after_s(0, 4, 60), 9);
  EXPECT_EQ(load.retry_after_s(0, 1000, 60), 60);
  EXPECT_EQ(load.retry_after_s(2'000'000'000, 1000, 60), 3);
  EXPECT_EQ(load.retry_after_s(int64_t{1} << 62, 1, 60), 60);
}

}  // namespace
}  // namespace quire
