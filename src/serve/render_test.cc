// What a router asks a server to find its cached blocks: the tokens of a prompt, and the name of the salt that they
// are under.
#include "serve/testing.h"

namespace quire {
namespace {

// The prompt that reaches the engine.
std::vector<Token> computed(TestServer& s, const std::string& path, const std::string& body) {
  std::vector<Token> out;
  s.engine.script = [&](const Request& r) {
    out = r.prompt;
    return byte_tokens("x");
  };
  EXPECT_EQ(s.post(path, body).status, 200) << body;
  return out;
}

std::vector<Token> ids_of(const Json& rendered) {
  std::vector<Token> out;
  for (const Json& id : list_of(json_at(rendered, "token_ids"))) out.push_back(static_cast<Token>(int_at(id)));
  return out;
}

TEST(Render, SaysTheTokensThatTheRequestWouldHave) {
  TestServer s;
  s.start();
  const std::string chats = "/v1/chat/completions", texts = "/v1/completions";
  for (const std::string body :
       {R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":3,"seed":1})",
        R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"Hi"}],"user":"u"})"}) {
    const std::vector<Token> tokens = computed(s, chats, body);
    EXPECT_FALSE(tokens.empty());
    EXPECT_EQ(ids_of(parse_json(s.post(chats + "/render", body).body)), tokens) << body;
  }
  for (const std::string body : {R"({"prompt":"Once upon","max_tokens":3})", R"({"prompt":[5,6,7],"stream":false})",
                                 R"({"prompt":"a","add_special_tokens":false})"}) {
    const std::vector<Token> tokens = computed(s, texts, body);
    EXPECT_FALSE(tokens.empty());
    EXPECT_EQ(ids_of(json_at(parse_json(s.post(texts + "/render", body).body), 0)), tokens) << body;
  }
  const Json many = parse_json(s.post(texts + "/render", R"({"prompt":[[1,2],[3]],"n":2})").body);
  ASSERT_EQ(list_of(many).size(), 2U);
  EXPECT_EQ(ids_of(json_at(many, 1)), (std::vector<Token>{3}));
  EXPECT_EQ(s.post(chats + "/render", R"({"messages":3})").status, 400);
  EXPECT_EQ(s.post(texts + "/render", R"({"prompt":""})").status, 400);
}

TEST(Render, AnswersNameTheSaltAsEventsDo) {
  const std::string body = R"({"prompt":"x"})";
  const HttpHeaders key{{"Authorization", "Bearer one"}};
  TestServer s;
  uint64_t asked = 0;
  s.options.salt_name = [&](uint64_t salt) {
    asked = salt;
    return std::string("named");
  };
  s.start();
  uint64_t used = 1;
  s.engine.script = [&](const Request& r) {
    used = r.cache_salt;
    return byte_tokens("x");
  };
  const HttpResponse salted = s.post("/v1/completions", body, key);
  ASSERT_NE(salted.header("x-quire-cache-salt"), nullptr);
  EXPECT_EQ(*salted.header("x-quire-cache-salt"), "named");
  EXPECT_EQ(asked, used);
  EXPECT_EQ(s.post("/v1/completions", body).header("x-quire-cache-salt"), nullptr);
  // Where no events are published nobody needs the name.
  TestServer silent;
  silent.start();
  EXPECT_EQ(silent.post("/v1/completions", body, key).header("x-quire-cache-salt"), nullptr);
}

}  // namespace
}  // namespace quire
