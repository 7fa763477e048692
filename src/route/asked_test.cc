#include "route/asked.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"
#include "route/session_key.h"

namespace quire {
namespace {

TEST(Asked, ReadsTheOutermostMembersOnly) {
  const std::string body = R"( {"model" : "m\"1", "messages":[{"role":"user","content":"a \\\" ] } b","user":"inner"}],
    "user":"u","max_tokens":17, "prompt_cache_key":"k", "x":{"model":"no"}, "tools":[{"type":"f"}],"stream":true})";
  const Asked asked = read_asked(body);
  EXPECT_EQ(asked.model, R"(m"1)");
  EXPECT_EQ(asked.user, "u");
  EXPECT_EQ(asked.prompt_cache_key, "k");
  EXPECT_EQ(asked.max_tokens, 17);
  ASSERT_EQ(asked.text.size(), 2U);
  EXPECT_EQ(asked.text[0], R"([{"type":"f"}])");
  EXPECT_EQ(asked.text[1], R"([{"role":"user","content":"a \\\" ] } b","user":"inner"}])");
  EXPECT_EQ(asked.text_bytes, std::ssize(asked.text[0]) + std::ssize(asked.text[1]));
}

TEST(Asked, BadBodiesAreReadAsFarAsTheyGo) {
  for (const char* body : {"", "[]", "{", "{\"model\"", "{\"model\":", "{\"model\":\"m", "{\"model\":[[[", "nonsense",
                           "{\"\\", "{\"model\":}", "{,}", "{\"prompt\":\"x\\\\\\"}) {
    const Asked asked = read_asked(body);
    EXPECT_TRUE(asked.model.empty()) << body;
    EXPECT_TRUE(asked.text.empty()) << body;
  }
  EXPECT_EQ(read_asked(R"({"user":"u","model":["x")").user, "u");
  const std::string deep(1 << 20, '[');
  EXPECT_TRUE(read_asked("{\"prompt\":" + deep).text.empty());
  EXPECT_EQ(read_asked("{\"prompt\":" + deep + std::string(1 << 20, ']') + ",\"user\":\"u\"}").user, "u");
  EXPECT_EQ(read_asked("{\"prompt\":\"" + std::string(1 << 20, '\\') + "\",\"user\":\"u\"}").user, "u");
}

// What /generate and /infill call it.
TEST(Asked, TokensAndTextsToFillInArePromptsToo) {
  std::string ids = "[1";
  for (int i = 0; i < 100; ++i) ids += ",17";
  const std::string begun = R"({"model":"m","input_ids":)" + ids;
  const auto first = block_names(read_asked(begun + "]}"), 1), longer = block_names(read_asked(begun + ",18,19]}"), 1);
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(longer.size(), 4U);
  EXPECT_EQ(first, longer);
  EXPECT_EQ(read_asked(begun + "]}").text_bytes, std::ssize(ids) + 1);
  const Asked fill = read_asked(R"({"input_suffix":"z","prompt":"b","input_prefix":"a","input_extra":[{"text":"c"}]})");
  ASSERT_EQ(fill.text.size(), 3U);
  EXPECT_EQ(fill.text[0], R"([{"text":"c"}])");
  EXPECT_EQ(fill.text[1], "\"a\"");
  EXPECT_EQ(read_asked(R"({"text":"abc"})").text_bytes, 5);
  EXPECT_EQ(read_asked(R"({"input":"abc","text":{"format":{"type":"text"}}})").text_bytes, 5)
      << "a setting of responses";
}

// As servers count them.
TEST(Asked, ChoicesAndPromptsAreCounted) {
  for (const auto& [body, n] : {std::pair{R"({"prompt":"a"})", 1},
                                {R"({"prompt":"a","n":8})", 8},
                                {R"({"prompt":"a","n":2,"best_of":5})", 5},
                                {R"({"prompt":["a",  "b,[\"", "c"],"n":2})", 6},
                                {R"({"prompt":[1,2,3]})", 1},
                                {R"({"prompt":[[1,2],[3]]})", 2},
                                {R"({"input":["a","b"]})", 2},
                                {R"({"input":[{"role":"user"},{"role":"user"}]})", 1},
                                {R"({"content":["a","b"]})", 2},
                                {R"({"messages":["a","b"],"n":"8"})", 1},
                                {R"({"prompt":[],"n":0})", 1},
                                {R"({"prompt":"a","n":-3})", 1},
                                {R"({"prompt":["a","b"],"n":999999999999})", 1024},
                                {R"({"prompt":["a","b)", 1}})
    EXPECT_EQ(read_asked(body).n_sequences(), n) << body;
}

// However a client's library escapes them: PHP's writes org\/name.
TEST(Asked, NamesAreWhatTheyStandForHoweverTheyAreEscaped) {
  const Asked asked = read_asked(
      R"({"mo\u0064el":"org\/m\u00fcller","user":"\u0075","previous_response_id":"resp\u005f1","pro\u006dpt":"text"})");
  EXPECT_EQ(asked.model, "org/müller");
  EXPECT_EQ(asked.user, "u");
  EXPECT_EQ(asked.previous_response_id, "resp_1");
  EXPECT_EQ(asked.text_bytes, 6);
  EXPECT_EQ(read_asked(R"({"model":"bad\x"})").model, R"(bad\x)");
}

TEST(Asked, WhateverComesTheViewsAreOfTheBody) {
  const std::string seed =
      R"({"model":"m","messages":[{"role":"user","content":"a\\\" ]"}],"max_tokens":17,"user":"u"})";
  constexpr std::string_view kPieces = "{}[]\":,\\ 0a";
  Rng rng(5);
  const auto below = [&](size_t n) { return static_cast<size_t>(rng.between(0, static_cast<int64_t>(n) - 1)); };
  int n_read = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string body = seed;
    for (int64_t k = rng.between(1, 4); k > 0 && !body.empty(); --k) {
      if (rng.between(0, 2) == 0)
        body.resize(below(body.size()));
      else
        body[below(body.size())] = kPieces[below(kPieces.size())];
    }
    const Asked asked = read_asked(body);
    for (const std::string_view view : asked.text)
      ASSERT_TRUE(view.empty() ||
                  (view.data() >= body.data() && view.data() + view.size() <= body.data() + body.size()));
    n_read += !asked.text.empty();
    block_names(asked, 0);
  }
  EXPECT_GT(n_read, 10'000);
}

TEST(Asked, ADialogueThatGrowsKeepsItsBlocks) {
  std::string turns = R"({"role":"system","content":")" + std::string(3000, 's') + "\"}";
  std::vector<uint64_t> before;
  for (int turn = 0; turn < 12; ++turn) {
    turns += R"(,{"role":"user","content":")" + std::string(900, static_cast<char>('a' + turn)) + "\"}";
    const std::string body = "{\"messages\":[" + turns + "]}";
    const auto names = block_names(read_asked(body), 1);
    ASSERT_GE(names.size(), before.size());
    // The last block of the shorter one may hold its closing brackets.
    for (size_t i = 0; i + 1 < before.size(); ++i) EXPECT_EQ(names[i], before[i]);
    before = names;
  }
  EXPECT_NE(block_names(read_asked("{\"messages\":[" + turns + "]}"), 2).front(), before.front());
}

TEST(Asked, BlocksAreBoundedAndCountedInBytes) {
  const std::string body = "{\"prompt\":\"" + std::string(4 << 20, 'x') + "\"}";
  const Asked asked = read_asked(body);
  EXPECT_EQ(std::ssize(block_names(asked, 0)), kMostBlocks);
  EXPECT_EQ(bytes_of_blocks(1), 64);
  EXPECT_EQ(bytes_of_blocks(129), 128 * 64 + 1024);
  EXPECT_TRUE(block_names(read_asked("{\"prompt\":\"short\"}"), 0).empty());
}

HttpRequest asking(std::string path, HttpHeaders headers = {}) {
  HttpRequest out;
  out.path = std::move(path);
  out.headers = std::move(headers);
  return out;
}

RouteAsk ask_of(const HttpRequest& request, std::string_view body, uint64_t tenant) {
  return route_ask(request, read_asked(body), tenant);
}

TEST(SessionKey, TheMostCertainNameCountsAndTenantsAreApart) {
  const std::string all = R"({"user":"u","prompt_cache_key":"k","previous_response_id":"resp_1","max_tokens":100000})";
  const HttpRequest plain = asking("/v1/responses");
  const RouteAsk chained = ask_of(plain, all, 1);
  EXPECT_EQ(chained.session, session_of(1, kResponseKind, "resp_1"));
  EXPECT_TRUE(chained.pinned);
  EXPECT_LE(chained.answer_tokens, 4096);
  EXPECT_EQ(ask_of(asking("/v1/responses/resp_1/input_items"), "", 1).session, chained.session);
  EXPECT_NE(ask_of(plain, all, 2).session, chained.session);

  const std::string keyed = R"({"user":"u","prompt_cache_key":"k"})";
  const HttpRequest with_field = asking("/v1/chat/completions", {{"x-session-id", "s"}});
  EXPECT_EQ(ask_of(with_field, keyed, 1).session, session_of(1, "prompt_cache_key", "k"));
  EXPECT_FALSE(ask_of(with_field, keyed, 1).pinned);
  EXPECT_EQ(ask_of(with_field, R"({"user":"u"})", 1).session, session_of(1, "x-session-id", "s"));
  EXPECT_EQ(ask_of(plain, R"({"user":"u"})", 1).session, session_of(1, "user", "u"));
  EXPECT_EQ(ask_of(asking("/v1/streams/abc"), "", 1).session, session_of(1, kStreamKind, "abc"));
}

TEST(SessionKey, WithoutANameTheBeginningOfThePromptIsTheKey) {
  const HttpRequest plain = asking("/v1/chat/completions");
  const std::string begin = "{\"prompt\":\"" + std::string(1500, 'x');
  const RouteAsk a = ask_of(plain, begin + "one\"}", 1), b = ask_of(plain, begin + "two\"}", 1);
  EXPECT_FALSE(a.session);
  EXPECT_EQ(a.key, b.key);
  EXPECT_NE(a.key, ask_of(plain, begin + "one\"}", 2).key);
  EXPECT_NE(ask_of(plain, "{\"prompt\":\"a\"}", 1).key, ask_of(plain, "{\"prompt\":\"b\"}", 1).key);
}

}  // namespace
}  // namespace quire
