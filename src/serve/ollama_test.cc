// /api/… over a real socket: lines of JSON, the reference's defaults, refusals in its shape.
#include "serve/testing.h"

namespace quire {
namespace {

struct OllamaServer : TestServer {
  OllamaServer() {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = kTurnsTemplate;
    tokenizer = tiny_tokenizer(spec);
    options.card = {"llama", "q8_0", 1'235'814'400, 1'000, 1'700'000'000};
    engine.script = [this](const Request& r) {
      prompt = r.prompt;
      sampling = r.sampling;
      max_tokens = r.max_tokens;
      return byte_tokens("Hi you");
    };
  }
  std::string prompt_text() const { return text_of(prompt); }
  std::vector<Json> lines(const std::string& path, const std::string& body) {
    const HttpResponse r = post(path, body);
    EXPECT_EQ(r.status, 200) << r.body;
    std::vector<Json> out;
    for (size_t at = 0, end = 0; at < r.body.size(); at = end + 1) {
      end = std::min(r.body.find('\n', at), r.body.size());
      out.push_back(parse_json(r.body.substr(at, end - at)));
    }
    return out;
  }
  std::vector<Token> prompt;
  SamplingParams sampling;
  int max_tokens = 0;
};

TEST(Ollama, ChatStreamsLinesUnlessToldNotTo) {
  OllamaServer s;
  s.start();
  const std::string messages = R"("model":"tiny:latest","messages":[{"role":"user","content":"Hello"}])";
  const std::vector<Json> lines = s.lines("/api/chat", "{" + messages + "}");
  ASSERT_GE(lines.size(), 2u);
  std::string text;
  for (const Json& line : lines) {
    EXPECT_EQ(text_at(json_at(line, "model")), "tiny");
    EXPECT_EQ(text_at(json_at(line, "message", "role")), "assistant");
    EXPECT_EQ(json_at(line, "done"), Json(&line == &lines.back()));
    text += text_at(json_at(line, "message", "content"));
  }
  EXPECT_EQ(text, "Hi you");
  EXPECT_EQ(text_at(json_at(lines.back(), "done_reason")), "stop");
  EXPECT_EQ(int_at(json_at(lines.back(), "eval_count")), 7) << "with the end token";
  EXPECT_EQ(int_at(json_at(lines.back(), "prompt_eval_count")), static_cast<int64_t>(s.prompt.size()));
  EXPECT_EQ(s.prompt_text(), "<s>[user]Hello</s>[assistant]");

  const std::vector<Json> whole = s.lines("/api/chat", R"({"stream":false,)" + messages + "}");
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(text_at(json_at(whole[0], "message", "content")), "Hi you");
}

TEST(Ollama, OptionsHaveTheServersDefaults) {
  OllamaServer s;
  s.options.sampling.set("temperature", 0.8, "table");
  s.options.sampling.set("top_k", 40, "table");
  s.options.sampling.set("top_p", 0.9, "table");
  s.start();
  s.lines("/api/generate", R"({"model":"tiny","prompt":"x"})");
  EXPECT_EQ(s.sampling.temperature, 0.8F);
  EXPECT_EQ(s.sampling.top_k, 40);
  EXPECT_EQ(s.sampling.top_p, 0.9F);
  s.lines("/api/generate", R"({"model":"tiny","prompt":"x","options":{"temperature":0,"top_k":5,"top_p":0.5,"seed":9,
                              "num_predict":2,"num_ctx":4096,"stop":["zz"]}})");
  EXPECT_EQ(s.sampling.temperature, 0.0F);
  EXPECT_EQ(s.sampling.top_k, 5);
  EXPECT_EQ(s.sampling.top_p, 0.5F);
  EXPECT_EQ(s.sampling.seed, 9u);
  EXPECT_EQ(s.max_tokens, 2);
}

TEST(Ollama, GenerateRendersTheTemplateUnlessRaw) {
  OllamaServer s;
  s.start();
  const auto lines = s.lines("/api/generate", R"({"model":"tiny","prompt":"Go","system":"Be","stream":false})");
  EXPECT_EQ(text_at(json_at(lines[0], "response")), "Hi you");
  EXPECT_EQ(s.prompt_text(), "<s>[system]Be</s>[user]Go</s>[assistant]");
  s.lines("/api/generate", R"({"model":"tiny","prompt":"Go","raw":true,"stream":false})");
  EXPECT_EQ(s.prompt_text(), "<s>Go");
  s.prompt.clear();
  const auto loaded = s.lines("/api/generate", R"({"model":"tiny"})");
  EXPECT_EQ(text_at(json_at(loaded[0], "done_reason")), "load");
  EXPECT_TRUE(s.prompt.empty()) << "nothing was asked";
}

TEST(Ollama, TellsAboutTheModel) {
  OllamaServer s;
  s.start();
  const Json tag = json_at(parse_json(s.get("/api/tags").body), "models", 0);
  EXPECT_EQ(text_at(json_at(tag, "name")), "tiny");
  EXPECT_EQ(text_at(json_at(tag, "modified_at")), "2023-11-14T22:13:20Z");
  EXPECT_EQ(text_at(json_at(tag, "details", "parameter_size")), "1.2B");
  EXPECT_EQ(text_at(json_at(tag, "details", "quantization_level")), "Q8_0");
  const Json show = parse_json(s.post("/api/show", R"({"model":"tiny"})").body);
  EXPECT_EQ(text_at(json_at(show, "template")), kTurnsTemplate);
  EXPECT_GT(int_at(json_at(show, "model_info", "llama.context_length")), 0);
  EXPECT_EQ(s.post("/api/show", R"({"model":"other"})").status, 404);
}

TEST(Ollama, RefusesInItsOwnShape) {
  OllamaServer s;
  s.start();
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages":[{"role":"user","content":"x"}],"options":{"temperature":-1}})", "'options.temperature'"},
      {R"({"messages":[{"role":"user","content":"x","images":["aGk="]}]})",
       "'messages[0].images' is not supported yet"},
      {R"({"messages":[{"role":"user","content":"x"}],"format":"xml"})",
       "'format' is 'xml': it must be json or a schema"},
      {R"({"messages":[{"content":"x"}]})", "'messages[0].role' is required"},
  };
  for (const auto& [body, message] : cases) {
    const HttpResponse r = s.post("/api/chat", body);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "error")).rfind(message, 0), 0u) << r.body;
  }
}

}  // namespace
}  // namespace quire
