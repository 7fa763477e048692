// Pins over HTTP on the scripted engine: what is asked of it, whose pins are whose, what is refused. That pinned blocks
// stay is proven by kv_model_test, engine_pins_test and tests/e2e/test_pins.py.
#include <gtest/gtest.h>

#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kPin = "/v1/cache/pin";
constexpr const char* kUnpin = "/v1/cache/unpin";
constexpr const char* kPins = "/v1/cache/pins";

std::string prompt_body(int n_bytes) {
  return R"({"prompt": ")" + std::string(static_cast<size_t>(n_bytes), 'x') + "\"}";
}

Json post(const TestServer& server, const char* path, const std::string& body, int status, HttpHeaders headers = {}) {
  const HttpResponse response = server.post(path, body, std::move(headers));
  EXPECT_EQ(response.status, status) << response.body;
  return parse_json(response.body);
}

std::string code_of(const Json& answer) { return text_at(json_at(answer, "error", "code")); }

TEST(CachePins, APromptIsPinnedListedAndGivenUp) {
  TestServer server;
  Request seen;
  server.engine.script = [&](const Request& r) {
    seen.pin = r.pin;
    seen.max_tokens = r.max_tokens;
    seen.prompt = r.prompt;
    return FakeEngine::default_script(r);
  };
  server.start();
  const Json pin = post(server, kPin, prompt_body(40), 200);
  const std::string id = text_at(json_at(pin, "id"));
  EXPECT_EQ(id.size(), 20U);
  EXPECT_EQ(int_at(json_at(pin, "prompt_tokens")), 41);
  EXPECT_EQ(int_at(json_at(pin, "pinned_tokens")), 32);
  EXPECT_EQ(seen.max_tokens, 1);
  EXPECT_NE(seen.pin.id, 0U);
  const Json list = parse_json(server.get(kPins).body);
  EXPECT_EQ(text_at(json_at(list, "data", 0, "id")), id);
  EXPECT_EQ(int_at(json_at(list, "data", 0, "pinned_tokens")), 32);
  EXPECT_EQ(int_at(json_at(list, "data", 0, "bytes")), 3200);
  const Json gone = post(server, kUnpin, R"({"id": ")" + id + "\"}", 200);
  EXPECT_EQ(text_at(json_at(gone, "id")), id);
  EXPECT_TRUE(list_of(json_at(parse_json(server.get(kPins).body), "data")).empty());
  EXPECT_EQ(code_of(post(server, kUnpin, R"({"id": ")" + id + "\"}", 404)), "not_found");
}

// The body of a chat or completion as it stands, whatever it says of the answer.
TEST(CachePins, TheBodyOfAChatPinsWhatTheChatComputes) {
  TestServer server;
  std::vector<std::vector<Token>> prompts;
  server.engine.script = [&](const Request& r) {
    prompts.push_back(r.prompt);
    EXPECT_TRUE(r.rules.empty()) << "no grammar for what has no answer";
    return FakeEngine::default_script(r);
  };
  server.start();
  const std::string body = R"({"messages": [{"role": "user", "content": "Who wrote the song that everybody sings?"}],
    "n": 3, "stream": true, "temperature": 0.5, "stop": ["."], "max_tokens": 5, "logprobs": true,
    "response_format": {"type": "json_object"}})";
  post(server, kPin, body, 200);
  const auto events = server.stream("/v1/chat/completions", body);
  EXPECT_EQ(events.status, 200) << events.body;
  ASSERT_EQ(prompts.size(), 4U) << "the pin is one sequence, the chat three";
  EXPECT_EQ(prompts[0], prompts[1]);
}

TEST(CachePins, AreTheirKeysAlone) {
  TestServer server;
  for (const char* name : {"one", "two"}) server.options.keys.push_back(plain_key(name, name, true, false));
  uint64_t salt_of_pin = 0, salt_of_chat = 0;
  server.engine.script = [&](const Request& r) {
    (r.pin.id != 0 ? salt_of_pin : salt_of_chat) = r.cache_salt;
    return FakeEngine::default_script(r);
  };
  server.start();
  const HttpHeaders one = {{"Authorization", "Bearer one"}}, two = {{"Authorization", "Bearer two"}};
  const std::string id = text_at(json_at(post(server, kPin, prompt_body(40), 200, one), "id"));
  post(server, "/v1/completions", prompt_body(40), 200, one);
  EXPECT_EQ(salt_of_pin, salt_of_chat);
  EXPECT_NE(salt_of_pin, 0U);
  EXPECT_TRUE(list_of(json_at(parse_json(server.get(kPins, two).body), "data")).empty());
  EXPECT_EQ(code_of(post(server, kUnpin, R"({"id": ")" + id + "\"}", 404, two)), "not_found");
  EXPECT_EQ(list_of(json_at(parse_json(server.get(kPins, one).body), "data")).size(), 1U);
  EXPECT_EQ(server.get(kPins).status, 401);
  post(server, kUnpin, R"({"id": ")" + id + "\"}", 200, one);
}

TEST(CachePins, RefusalsNameWhatIsWrong) {
  TestServer server;
  server.options.limits.n_pins_each = 1;
  server.start();
  const auto field = [&](const std::string& body) {
    return text_at(json_at(post(server, kPin, body, 400), "error", "param"));
  };
  EXPECT_EQ(field("{}"), "messages");
  EXPECT_EQ(field(R"({"prompt": "a", "messages": []})"), "prompt");
  EXPECT_EQ(field(R"({"prompt": ["a", "b"]})"), "prompt");
  EXPECT_EQ(field(R"({"prompt": []})"), "prompt");
  EXPECT_EQ(field(R"({"prompt": [1, -5]})"), "prompt[1]");
  EXPECT_EQ(field(R"({"messages": [{"role": "nobody", "content": "x"}]})"), "messages[0].role");
  EXPECT_EQ(field(R"({"prompt": "a", "suffix": "b"})"), "suffix");
  for (const char* id : {"", "pin_", "pin_00000000000000zz", "pin_0000000000000000", "x"})
    server.post(kUnpin, R"({"id": ")" + std::string(id) + "\"}");
  EXPECT_EQ(code_of(post(server, kUnpin, R"({"id": "pin_00000000000000zz"})", 404)), "not_found");
  EXPECT_EQ(text_at(json_at(post(server, kUnpin, "{}", 400), "error", "param")), "id");
  server.engine.no_pin = "with it pins would hold 3200 bytes; 100 may be pinned";
  const Json full = post(server, kPin, prompt_body(40), 400);
  EXPECT_EQ(code_of(full), "pins_full");
  EXPECT_EQ(text_at(json_at(full, "error", "message")),
            "the prompt cannot be pinned: with it pins would hold 3200 bytes; 100 may be pinned");
  server.engine.no_pin = "";
  post(server, kPin, prompt_body(40), 200);
  const Json more = post(server, kPin, prompt_body(40), 400);
  EXPECT_EQ(code_of(more), "pins_full");
  EXPECT_NE(text_at(json_at(more, "error", "message")).find("1 (n_pins_each)"), std::string::npos);
}

TEST(WarmPrompts, AreComputedPinnedAndPublicBeforeTheFirstRequest) {
  TestServer server;
  const std::string text(60, 'w');
  server.options.warm_prompts = {"\"" + text + "\"",
                                 R"({"messages": [{"role": "system", "content": ")" + text + R"("}]})"};
  std::vector<Request> seen;
  server.engine.script = [&](const Request& r) {
    Request& one = seen.emplace_back();
    one.prompt = r.prompt;
    one.n_public = r.n_public;
    one.pin = r.pin;
    one.cache_salt = r.cache_salt;
    return FakeEngine::default_script(r);
  };
  server.engine.start();
  auto started = start_serving(server.options, server.engine, *server.tokenizer, server.metrics, server.signal);
  ASSERT_TRUE(started) << started.error().message;
  server.serving = std::move(*started);
  ASSERT_EQ(seen.size(), 2U);
  for (const Request& r : seen) {
    EXPECT_NE(r.pin.id, 0U);
    EXPECT_EQ(r.cache_salt, 0U);
    EXPECT_EQ(r.n_public, static_cast<int>(r.prompt.size()));
  }
  post(server, "/v1/completions", R"({"prompt": ")" + text + R"( and more", "max_tokens": 1})", 200,
       {{"Authorization", "Bearer somebody"}});
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_NE(seen[2].cache_salt, 0U);
  EXPECT_EQ(seen[2].n_public, 61) << "all that it has in common with a warm prompt, BOS included";
  EXPECT_TRUE(list_of(json_at(parse_json(server.get(kPins).body), "data")).empty()) << "they are no client's";
}

TEST(WarmPrompts, WhatCannotBeWarmedKeepsTheServerFromStarting) {
  const auto error = [](const std::string& line, const std::string& no_pin = "") {
    TestServer server;
    server.engine.no_pin = no_pin;
    server.options.warm_prompts = {R"("the first is well, and it is long enough")", line};
    if (!no_pin.empty()) server.options.warm_prompts.erase(server.options.warm_prompts.begin());
    server.engine.start();
    const auto started = start_serving(server.options, server.engine, *server.tokenizer, server.metrics, server.signal);
    return started ? "" : started.error().message;
  };
  EXPECT_EQ(error("\"fine\""), "");
  EXPECT_TRUE(error("{").starts_with("warm prompt 2: ")) << error("{");
  EXPECT_EQ(error("7"), "warm prompt 2: it must be a string or an object");
  EXPECT_EQ(error(R"({"messages": 1})").find("warm prompt 2: 'messages'"), 0U);
  EXPECT_NE(error(R"({"prompt": "x", "cache_salt": "s"})").find("'cache_salt'"), std::string::npos);
  EXPECT_EQ(error("\"long\"", "there is no room"), "warm prompt 1: there is no room");
}

}  // namespace
}  // namespace quire
