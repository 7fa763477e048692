// POST /v1/cache/explain on the scripted engine: what is asked of it, and what becomes of what it finds: causes that
// the text and the template tell, and the answer's form. What the engine finds is proven by engine_explain_test, all of
// it together by tests/e2e/test_explain.py.
#include <gtest/gtest.h>

#include "serve/miss.h"
#include "serve/recent_salts.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kExplain = "/v1/cache/explain";

Json post(const TestServer& server, const std::string& body, int status = 200, HttpHeaders headers = {}) {
  const HttpResponse response = server.post(kExplain, body, std::move(headers));
  EXPECT_EQ(response.status, status) << response.body;
  return parse_json(response.body);
}

Explanation parting(const std::string& asked, const std::string& stored, int at = 40) {
  Explanation out;
  out.n_prompt = 100;
  out.n_memory = at / 16 * 16;
  out.block_tokens = 16;
  out.cause = MissCause::differs;
  out.parts_at = at;
  out.before = byte_tokens("so far");
  out.asked = byte_tokens(asked);
  out.stored = byte_tokens(stored);
  return out;
}

TEST(CacheExplain, TheAnswerHasCountsCauseAndTheTextAround) {
  TestServer server;
  std::vector<Token> prompt;
  server.engine.script = [&](const Request& r) {
    EXPECT_NE(r.explain, nullptr);
    prompt = r.prompt;
    return std::vector<Token>{};
  };
  server.engine.explanation = parting("ten cats on a wall", "two dogs on a wall");
  server.engine.explanation.n_disk = 16;
  server.engine.explanation.n_remote = 8;
  server.start();
  const Json answer = post(server, R"({"prompt": "whatever it is", "max_tokens": 7, "stream": true})");
  EXPECT_EQ(text_at(json_at(answer, "object")), "cache.explanation");
  EXPECT_EQ(text_at(json_at(answer, "model")), "tiny");
  EXPECT_EQ(prompt.size(), 15U);
  EXPECT_EQ(int_at(json_at(answer, "prompt_tokens")), 100);
  EXPECT_EQ(int_at(json_at(answer, "cached_tokens")), 56);
  EXPECT_EQ(int_at(json_at(answer, "cached_tokens_by_tier", "memory")), 32);
  EXPECT_EQ(int_at(json_at(answer, "cached_tokens_by_tier", "disk")), 16);
  EXPECT_EQ(int_at(json_at(answer, "cached_tokens_by_tier", "remote")), 8);
  EXPECT_EQ(int_at(json_at(answer, "computed_tokens")), 44);
  EXPECT_EQ(text_at(json_at(answer, "cause")), "differs");
  EXPECT_EQ(int_at(json_at(answer, "first_difference", "token")), 40);
  EXPECT_EQ(text_at(json_at(answer, "first_difference", "before")), "so far");
  EXPECT_EQ(text_at(json_at(answer, "first_difference", "prompt")), "ten cats");
  EXPECT_EQ(text_at(json_at(answer, "first_difference", "stored")), "two dogs");
  EXPECT_TRUE(json_at(answer, "evicted").is_null());
}

TEST(CacheExplain, EvictionsSayWhenAndForWhomAlone) {
  TestServer server;
  server.engine.explanation.cause = MissCause::evicted;
  server.engine.explanation.evicted_ago_ns = 2'500'000'000;
  server.start();
  const Json answer = post(server, R"({"prompt": "x"})");
  EXPECT_EQ(text_at(json_at(answer, "cause")), "evicted");
  EXPECT_EQ(json_at(answer, "evicted", "seconds_ago").number(), 2.5);
  EXPECT_EQ(text_at(json_at(answer, "evicted", "for")), "another");
  EXPECT_TRUE(json_at(answer, "first_difference").is_null());
  EXPECT_EQ(text_at(json_at(answer, "reason")),
            "What comes next was cached and had to make room 2.5 s ago, for another client's request.");
}

TEST(CacheExplain, WhatIsWrongIsRefusedAsForAnyPrompt) {
  TestServer server;
  server.start();
  EXPECT_EQ(text_at(json_at(post(server, "{}", 400), "error", "param")), "messages");
  EXPECT_EQ(text_at(json_at(post(server, R"({"prompt": "a", "messages": []})", 400), "error", "param")), "prompt");
  EXPECT_EQ(text_at(json_at(post(server, R"({"prompt": ")" + std::string(5000, 'x') + "\"}", 400), "error", "code")),
            "context_length_exceeded");
}

std::string cause_of(const Explanation& found, const MissContext& context) {
  return std::string(name_miss(found, context).cause);
}

TEST(CacheExplain, TellsWhiteSpaceAndOtherTokensFromOtherText) {
  const auto tokenizer = tiny_tokenizer();
  MissContext context;
  context.tokenizer = tokenizer.get();
  EXPECT_EQ(cause_of(parting("\n\nHello there", "\nHello there, you"), context), "whitespace_or_merge");
  EXPECT_EQ(cause_of(parting("Hello there", "Hallo there"), context), "differs");
  EXPECT_EQ(cause_of(parting("ten", "two"), context), "differs");
  // "abc" is a token of its own; so are its bytes.
  Explanation merged = parting("", "abcd");
  merged.asked = {kFirstWord + 4};
  merged.asked.push_back(kFirstByte + 'd');
  EXPECT_EQ(cause_of(merged, context), "whitespace_or_merge");
  merged.stored = byte_tokens("ab");  // as far as is stored it may be another word
  EXPECT_EQ(cause_of(merged, context), "differs");
  // Nothing but white space on one side says nothing.
  EXPECT_EQ(cause_of(parting("  \n", "word"), context), "differs");
}

TEST(CacheExplain, ReasoningThatIsGoneIsTheTemplates) {
  const auto tokenizer = tiny_tokenizer();
  MissContext context;
  context.tokenizer = tokenizer.get();
  const Explanation found = parting("The answer", "<think>Let me see</think>The answer");
  EXPECT_EQ(cause_of(found, context), "differs") << "this model does not think";
  context.reasoning = ReasoningForm::Kind::think;
  EXPECT_EQ(cause_of(found, context), "template");
}

TEST(CacheExplain, WhatTheTemplateWroteOtherwiseThenIsTheTemplates) {
  const auto tokenizer = tiny_tokenizer();
  MissContext context;
  context.tokenizer = tokenizer.get();
  context.chat.turns = {{.message = 3, .n_same = 40, .then = byte_tokens("two dogs")}};
  EXPECT_EQ(cause_of(parting("ten cats", "two dogs"), context), "template");
  EXPECT_NE(name_miss(parting("ten cats", "two dogs"), context).reason.find("messages[3]"), std::string::npos);
  EXPECT_EQ(cause_of(parting("ten cats", "a bird"), context), "differs") << "something else is stored";
  EXPECT_EQ(cause_of(parting("ten cats", "two dogs", 41), context), "differs") << "at another place";
}

// A template that marks the last turn writes every earlier one otherwise.
TEST(CacheExplain, EarlierTurnsAreRenderedAsTheyWereAsked) {
  TestServer server;
  auto spec = tiny_spec();
  spec.chat_template =
      "{% for m in messages %}[{{ m['role'] }}{% if loop.last %}*{% endif %}]{{ m['content'] }}</s>{% endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}";
  server.tokenizer = tiny_tokenizer(spec);
  const std::string same = "[user";
  std::vector<Token> prompt;
  server.engine.script = [&](const Request& r) {
    prompt = r.prompt;
    return std::vector<Token>{};
  };
  server.engine.explanation = parting("]one", "*]one", 1 + static_cast<int>(byte_tokens(same).size()));
  server.start();
  const std::string body = R"({"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"},
    {"role": "user", "content": "two"}]})";
  const Json answer = post(server, body);
  EXPECT_NE(server.text_of(prompt).find("[user]one"), std::string::npos) << server.text_of(prompt);
  EXPECT_EQ(text_at(json_at(answer, "cause")), "template") << answer.dump();
  EXPECT_NE(text_at(json_at(answer, "reason")).find("messages[1]"), std::string::npos);
}

// Each token of the prompt lies in the message whose text it is, what the template writes around it included.
TEST(CacheExplain, TheDifferenceNamesItsMessage) {
  TestServer server;
  auto spec = tiny_spec();
  spec.chat_template =
      "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}</s>{% endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}";
  server.tokenizer = tiny_tokenizer(spec);
  std::vector<Token> prompt;
  server.engine.script = [&](const Request& r) {
    prompt = r.prompt;
    return std::vector<Token>{};
  };
  const auto ask = [&](int at) {
    server.engine.explanation = parting("two", "ten", at);
    return json_at(post(server, R"({"messages": [{"role": "user", "content": "one"},
      {"role": "assistant", "content": "1"}, {"role": "user", "content": "two"}]})"),
                   "first_difference");
  };
  server.start();
  ask(0);
  const std::string text = server.text_of(prompt);
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"one", "user"}, {"1", "assistant"}, {"two", "user"}};
  for (size_t i = 0; i < wanted.size(); ++i) {
    int at = 0;  // the token in which the content begins
    while (server.text_of({prompt.begin(), prompt.begin() + at + 1}).size() <= text.find(wanted[i].first)) ++at;
    const Json difference = ask(at);
    EXPECT_EQ(int_at(json_at(difference, "message")), static_cast<int64_t>(i)) << difference.dump();
    EXPECT_EQ(text_at(json_at(difference, "role")), wanted[i].second);
  }
  EXPECT_TRUE(json_at(ask(static_cast<int>(prompt.size()) - 1), "message").is_null()) << "behind the last message";
}

TEST(CacheExplain, AMessageIsNamedWhereItsBeginningIsKnownToo) {
  const std::vector<MessageEnd> ends = {{0, "system", 10}, {1, "user", 20}, {3, "user", 40}, {4, "assistant", 50}};
  EXPECT_EQ(message_at(ends, 0), &ends[0]);
  EXPECT_EQ(message_at(ends, 9), &ends[0]);
  EXPECT_EQ(message_at(ends, 10), &ends[1]);
  EXPECT_EQ(message_at(ends, 20), nullptr) << "of messages[2] nothing is known";
  EXPECT_EQ(message_at(ends, 40), &ends[3]);
  EXPECT_EQ(message_at(ends, 50), nullptr);
  EXPECT_EQ(message_at(std::span(ends).subspan(1), 15), nullptr) << "it may lie in messages[0]";
}

// The engine is told of the salts that the asker has named, and of no others.
TEST(CacheExplain, OtherSaltsAreTheAskersOwn) {
  TestServer server;
  for (const char* name : {"one", "two"}) server.options.keys.push_back(plain_key(name, name, true, false));
  std::vector<ExplainWish::Root> others;
  std::vector<uint64_t> salts;
  server.engine.script = [&](const Request& r) {
    if (r.explain != nullptr) others = r.explain->others;
    if (r.explain == nullptr) salts.push_back(r.cache_salt);
    return std::vector<Token>{};
  };
  server.start();
  const HttpHeaders one = {{"Authorization", "Bearer one"}}, two = {{"Authorization", "Bearer two"}};
  const auto ask = [&](const std::string& salt, const HttpHeaders& who) {
    EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "x", "max_tokens": 1, "cache_salt": ")" + salt + "\"}", who)
                  .status,
              200);
  };
  ask("a", one);
  ask("b", one);
  ask("c", two);
  post(server, R"({"prompt": "x", "cache_salt": "b"})", 200, one);
  ASSERT_EQ(salts.size(), 3U);
  ASSERT_EQ(others.size(), 2U) << "none, and a";
  EXPECT_EQ(others[1].salt, salts[0]);
  EXPECT_NE(others[0].salt, 0U) << "a key separates where no salt is named too";
  post(server, R"({"prompt": "x"})", 200, two);
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].salt, salts[2]);
}

TEST(CacheExplain, WithoutKeysOnlyTheUnsaltedPastIsLookedAt) {
  TestServer server;
  std::vector<ExplainWish::Root> others;
  server.engine.script = [&](const Request& r) {
    if (r.explain != nullptr) others = r.explain->others;
    return std::vector<Token>{};
  };
  server.start();
  server.post("/v1/completions", R"({"prompt": "x", "max_tokens": 1, "cache_salt": "a"})");
  post(server, R"({"prompt": "x", "cache_salt": "b"})");
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].salt, 0U);
  post(server, R"({"prompt": "x"})");
  EXPECT_TRUE(others.empty());
}

TEST(RecentSalts, AreBounded) {
  RecentSalts salts;
  for (uint64_t salt = 0; salt < 100; ++salt) salts.note(1, salt);
  EXPECT_EQ(salts.of(1), (std::vector<uint64_t>{99, 98, 97, 96, 95, 94, 93, 92}));
  salts.note(1, 95);
  EXPECT_EQ(salts.of(1).front(), 95U);
  EXPECT_EQ(salts.of(1).size(), RecentSalts::kSalts);
  for (uint64_t owner = 2; owner < 2 * RecentSalts::kOwners; ++owner) salts.note(owner, 1);
  EXPECT_EQ(salts.of(RecentSalts::kOwners).size(), 1U);
  EXPECT_TRUE(salts.of(RecentSalts::kOwners + 1).empty());
}

}  // namespace
}  // namespace quire
