// Answers that the client has begun, in every dialect of conversations, over a real socket; and those that a model
// begins by saying whom it speaks to.
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kThinking =
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]<think>\n{% endif %}{# </think> #}";

struct BegunServer : TestServer {
  explicit BegunServer(const char* source = kTurnsTemplate) {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = source;
    tokenizer = tiny_tokenizer(spec);
    engine.script = [this](const Request& r) {
      prompt = r.prompt;
      return byte_tokens(" world");
    };
  }
  std::string prompt_text() const { return text_of(prompt); }
  std::vector<Token> prompt;
};

const std::string kBegun =
    R"("messages":[{"role":"user","content":"Say it"},{"role":"assistant","content":"Hello</s>"}])";

TEST(Begun, TheAnswerGoesOnFromTheLastMessageInEveryDialect) {
  BegunServer s;
  s.start();
  const std::pair<const char*, const char*> cases[] = {
      {"/v1/chat/completions", ""},
      {"/v1/chat/completions", R"("continue_final_message":true,)"},
      {"/v1/chat/completions", R"("continue_final_message":true,"add_generation_prompt":false,)"},
      {"/chat/completions", ""},
      {"/v1/messages", R"("max_tokens":20,)"},
      {"/api/chat", R"("stream":false,)"}};
  for (const auto& [path, more] : cases) {
    const HttpResponse r = s.post(path, "{" + std::string(more) + kBegun + "}");
    ASSERT_EQ(r.status, 200) << path << r.body;
    EXPECT_EQ(s.prompt_text(), "<s>[user]Say it</s>[assistant]Hello</s>") << path << more;
    EXPECT_EQ(std::count(s.prompt.begin(), s.prompt.end(), 2), 1) << "the client's </s> is text";
    EXPECT_NE(r.body.find("\" world\""), std::string::npos) << "only what is new: " << r.body;
  }
  const HttpResponse shown = s.post("/apply-template", "{" + kBegun + "}");
  EXPECT_EQ(text_at(json_at(parse_json(shown.body), "prompt")), "[user]Say it</s>[assistant]Hello</s>");
}

TEST(Begun, ANewTurnBeginsWhereTheClientSaysSo) {
  BegunServer s;
  s.start();
  for (const char* more : {R"("add_generation_prompt":true,)", R"("continue_final_message":false,)"}) {
    ASSERT_EQ(s.post("/v1/chat/completions", "{" + std::string(more) + kBegun + "}").status, 200);
    EXPECT_EQ(s.prompt_text(), "<s>[user]Say it</s>[assistant]Hello</s></s>[assistant]") << more;
  }
  ASSERT_EQ(s.post("/v1/chat/completions", R"({"add_generation_prompt":false,)" + kBegun + "}").status, 200);
  EXPECT_EQ(s.prompt_text(), "<s>[user]Say it</s>[assistant]Hello</s></s>");
}

TEST(Begun, AThinkingThatTheTemplateOpensIsClosedFirst) {
  BegunServer s(kThinking);
  s.start();
  const HttpResponse r = s.post("/v1/chat/completions", "{" + kBegun + "}");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(s.prompt_text(), "<s>[user]Say it</s>[assistant]<think>\n\n</think>\n\nHello</s>");
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "choices", 0, "message", "content")), " world");
}

TEST(Begun, ThePlainTemplateWritesASpaceBeforeIt) {
  BegunServer s("");
  s.start();
  ASSERT_EQ(s.post("/v1/chat/completions", "{" + kBegun + "}").status, 200);
  EXPECT_EQ(s.prompt_text(), "<s>User: Say it\nAssistant: Hello</s>");
}

TEST(Begun, AnEmptyMessageOfTheAssistantsIsTheBeginningOfOne) {
  BegunServer s;
  s.start();
  const HttpResponse r = s.post("/v1/chat/completions",
                                R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null}]})");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(s.prompt_text(), "<s>[user]x</s>[assistant]");
}

TEST(Begun, UsageInEveryChunkWhereItIsAskedFor) {
  BegunServer s;
  s.start();
  const auto e = s.stream(
      "/v1/chat/completions",
      R"({"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},)" + kBegun + "}");
  int64_t last = 0;
  for (const SseEvent& event : e.list) {
    if (event.data == "[DONE]") continue;
    const Json j = parse_json(event.data);
    const int64_t n = int_at(json_at(j, "usage", "completion_tokens"));
    EXPECT_GE(n, last);
    EXPECT_EQ(int_at(json_at(j, "usage", "prompt_tokens")), static_cast<int64_t>(s.prompt.size()));
    EXPECT_EQ(int_at(json_at(j, "usage", "total_tokens")), static_cast<int64_t>(s.prompt.size()) + n);
    last = n;
  }
  EXPECT_EQ(last, 7) << "with the end token";
}

// As Functionary 3.2's: the prompt ends with a mark, behind which stands to whom the model speaks.
constexpr const char* kRecipients =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{% if m.content %}"
    "{% if m.role == 'assistant' %}>>>all\n{% endif %}{{ m.content }}{% endif %}{% for c in m.tool_calls %}"
    ">>>{{ c.function.name }}\n{{ c.function.arguments }}{% endfor %}</s>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]>>>{% endif %}";

std::string with_tool(const std::string& name, const std::string& more = "") {
  return R"({"messages":[{"role":"user","content":"x"})" + more +
         R"(],"tools":[{"type":"function","function":{"name":")" + name + R"("}}]})";
}

TEST(Begun, WithoutToolsAModelThatSaysToWhomItSpeaksSpeaksToAll) {
  const char* const chat = "/v1/chat/completions";
  BegunServer s(kRecipients);
  s.start();
  const HttpResponse plain = s.post(chat, R"({"messages":[{"role":"user","content":"x"}]})");
  ASSERT_EQ(plain.status, 200) << plain.body;
  EXPECT_EQ(s.prompt_text(), "<s>[user]x</s>[assistant]>>>all\n");
  ASSERT_EQ(s.post(chat, "{" + kBegun + "}").status, 200);
  EXPECT_EQ(s.prompt_text(), "<s>[user]Say it</s>[assistant]>>>all\nHello</s>");

  s.engine.script = [&](const Request& r) {
    s.prompt = r.prompt;
    return byte_tokens("all\nHm>>>get\n{}");
  };
  const HttpResponse called = s.post(chat, with_tool("get"));
  ASSERT_EQ(called.status, 200) << called.body;
  EXPECT_TRUE(s.prompt_text().ends_with("[assistant]>>>"));
  const Json message = json_at(parse_json(called.body), "choices", 0, "message");
  EXPECT_EQ(text_at(json_at(message, "content")), "Hm");
  EXPECT_EQ(text_at(json_at(message, "tool_calls", 0, "function", "name")), "get");

  EXPECT_EQ(s.post(chat, with_tool("get", R"(,{"role":"assistant","content":"Hello"})")).status, 400);
  const HttpResponse all = s.post(chat, with_tool("all"));
  EXPECT_EQ(all.status, 400);
  EXPECT_NE(all.body.find("has one named 'all'"), std::string::npos) << all.body;
}

TEST(Begun, WhomAModelSpeaksToIsNoTool) {
  BegunServer s(kRecipients);
  s.options.tool_format = "muse";
  s.start();
  for (const std::string name : {"user", "self"}) {
    const HttpResponse r = s.post("/v1/chat/completions", with_tool(name));
    EXPECT_EQ(r.status, 400) << r.body;
    EXPECT_NE(r.body.find("has one named '" + name + "'"), std::string::npos) << r.body;
  }
  EXPECT_EQ(s.post("/v1/chat/completions", with_tool("users")).status, 200);
}

}  // namespace
}  // namespace quire
