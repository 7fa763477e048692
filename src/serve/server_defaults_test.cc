// What the server says where a request does not: thinking, variables of the template, pooling; what it shows of a
// prompt; and which parts of it answer.
#include "sample/thinking_budget.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kChat = "/v1/chat/completions";

// A model whose template shows what it was told.
struct TemplateServer : TestServer {
  TemplateServer() {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template =
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is defined %}"
        "{{ '+' if enable_thinking else '-' }}{% endif %}{{ tone }}{{ reasoning_effort }}{# <think></think> #}";
    tokenizer = tiny_tokenizer(std::move(spec));
    options.card = {"llama", "q8_0", 1'000, 1'000, 1'700'000'000, 4, 0xabcULL};
    engine.script = [this](const Request& r) {
      prompt = r.prompt;
      pool = r.pool;
      budget = r.sampling.thinking != nullptr ? r.sampling.thinking->n_tokens : -1;
      return byte_tokens("y");
    };
  }
  static std::string body(const std::string& more) {
    return R"({"messages":[{"role":"user","content":"x"}],"max_tokens":4)" + more + "}";
  }
  std::string prompt_of(const std::string& more, const char* path = kChat) {
    const HttpResponse r = post(path, body(more));
    EXPECT_EQ(r.status, 200) << r.body;
    return text_of(prompt);
  }
  std::vector<Token> prompt;
  Pool pool = Pool::none;
  int budget = -1;
};

TEST(ServerDefaults, ThinkingIsTheRequestsThenTheServersThenTheTemplates) {
  TemplateServer s;
  s.start();
  EXPECT_EQ(s.prompt_of(""), "<s>x");
  for (const bool on : {true, false}) {
    TemplateServer told;
    told.options.chat_defaults.think = on;
    told.start();
    EXPECT_EQ(told.prompt_of(""), on ? "<s>x+" : "<s>x-");
    EXPECT_EQ(told.prompt_of(R"(,"chat_template_kwargs":{"enable_thinking":true})"), "<s>x+");
    EXPECT_EQ(told.prompt_of(R"(,"chat_template_kwargs":{"enable_thinking":false})"), "<s>x-");
    EXPECT_EQ(told.prompt_of(R"(,"reasoning_effort":"none")"), "<s>x-");
    EXPECT_EQ(told.prompt_of(R"(,"reasoning_effort":"high")"), "<s>xhigh") << "it asks for thinking by itself";
    EXPECT_EQ(told.prompt_of("", "/v1/messages"), "<s>x-") << "Anthropic's dialect says it by the field's absence";
  }
}

TEST(ServerDefaults, VariablesOfTheTemplateAreTheRequestsThenTheServers) {
  TemplateServer s;
  s.options.chat_defaults.kwargs = Json::Object{{"tone", "!"}, {"enable_thinking", true}};
  s.options.chat_defaults.think = false;
  s.start();
  EXPECT_EQ(s.prompt_of(""), "<s>x+!");
  EXPECT_EQ(s.prompt_of(R"(,"chat_template_kwargs":{"tone":"?"})"), "<s>x+?");
  EXPECT_EQ(s.prompt_of(R"(,"chat_template_kwargs":{"enable_thinking":false})"), "<s>x-!");
}

// Of a model that does not think by its own template, and of one that does.
TEST(ServerDefaults, WhetherAnswersAreTakenApartIsAsTheTemplateInForceSays) {
  for (const bool thinks : {true, false}) {
    TemplateServer s;
    if (thinks) s.tokenizer = tiny_tokenizer();
    s.options.chat_template =
        thinks ? "{{ messages[0].content }}{# enable_thinking: <think></think> #}" : "{{ messages[0].content }}";
    s.engine.script = [](const Request&) { return byte_tokens("<think>a</think>b"); };
    s.start();
    const Json message = json_at(parse_json(s.post(kChat, R"({"messages":[{"role":"user","content":"x"}]})").body),
                                 "choices", 0, "message");
    EXPECT_EQ(text_at(json_at(message, "content")), thinks ? "b" : "<think>a</think>b");
    EXPECT_EQ(json_at(message, "reasoning_content").is_null(), !thinks);
    const Json show = parse_json(s.post("/api/show", R"({"model":"tiny"})").body);
    EXPECT_EQ(text_at(json_at(show, "template")), s.options.chat_template);
  }
}

TEST(ServerDefaults, ABudgetOfThinkingIsForChatsThatNameNone) {
  TemplateServer s;
  s.options.chat_defaults.thinking_tokens = 5;
  s.options.chat_defaults.think = true;
  s.start();
  s.prompt_of("");
  EXPECT_EQ(s.budget, 5);
  s.prompt_of(R"(,"thinking_token_budget":2)");
  EXPECT_EQ(s.budget, 2);
  EXPECT_EQ(s.post("/v1/completions", R"({"prompt":"x","max_tokens":4})").status, 200);
  EXPECT_EQ(s.budget, -1) << "what is no conversation has no thinking";
  TestServer plain;
  plain.options.chat_defaults.thinking_tokens = 5;
  plain.start();
  EXPECT_EQ(plain.post(kChat, TemplateServer::body("")).status, 200) << "nor has a model that does not think";
}

TEST(ServerDefaults, PoolingIsTheRequestsThenTheServers) {
  for (const Pool pool : {Pool::last, Pool::mean, Pool::all}) {
    TemplateServer s;
    s.options.pooling = pool;
    s.start();
    EXPECT_EQ(s.post("/embeddings", R"({"input":[5,6]})").status, 200);
    EXPECT_EQ(s.pool, pool);
    EXPECT_EQ(s.post("/embeddings", R"({"input":[5,6],"pooling":"mean"})").status, 200);
    EXPECT_EQ(s.pool, Pool::mean);
    const HttpResponse r = s.post("/v1/embeddings", R"({"input":[5,6]})");
    EXPECT_EQ(r.status, pool == Pool::all ? 400 : 200) << r.body;
    EXPECT_EQ(s.pool, pool == Pool::all ? Pool::mean : pool);
    EXPECT_EQ(s.post("/v1/embeddings", R"({"input":[5,6],"pooling":"last"})").status, 200);
    EXPECT_EQ(s.pool, Pool::last);
    EXPECT_EQ(s.post("/api/embed", R"({"input":"ab"})").status, 200);
    EXPECT_EQ(s.pool, pool == Pool::mean ? Pool::mean : Pool::last);
  }
}

TEST(ServerDefaults, ThePromptIsShownWhereThatIsAskedFor) {
  TemplateServer s;
  s.start();
  const Json shown = parse_json(s.post(kChat, TemplateServer::body(R"(,"verbose":true,"seed":7)")).body);
  EXPECT_EQ(text_at(json_at(shown, "__verbose", "prompt")), "<s>x");
  EXPECT_EQ(int_at(json_at(shown, "__verbose", "tokens_evaluated")), 2);
  EXPECT_EQ(int_at(json_at(shown, "__verbose", "generation_settings", "seed")), 7);
  EXPECT_EQ(s.post(kChat, TemplateServer::body("")).body.find("__verbose"), std::string::npos);
  const auto streamed = s.stream(kChat, TemplateServer::body(R"(,"verbose":true,"stream":true,"n":2)"));
  int64_t n = 0;
  for (const SseEvent& event : streamed.list) n += event.data.find("__verbose") != std::string::npos ? 1 : 0;
  EXPECT_EQ(n, 1) << "once in a stream";
  TemplateServer always;
  always.options.chat_defaults.verbose = true;
  always.start();
  EXPECT_NE(always.post(kChat, TemplateServer::body("")).body.find("__verbose"), std::string::npos);
  EXPECT_EQ(always.post(kChat, TemplateServer::body(R"(,"verbose":false)")).body.find("__verbose"), std::string::npos);
}

TEST(ServerDefaults, PartsThatAreOffSayWhy) {
  TemplateServer s;
  s.options.off = {"slots", "metrics", "ui"};
  s.start();
  for (const auto& [path, option] : {std::pair{"/slots", "--no-slots"}, std::pair{"/metrics", "--no-metrics"}}) {
    const HttpResponse r = s.get(path);
    EXPECT_EQ(r.status, 501) << path;
    EXPECT_NE(r.body.find(option), std::string::npos) << r.body;
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "type")), "not_supported_error");
  }
  EXPECT_EQ(s.get("/").status, 404);
  EXPECT_EQ(s.get("/page/page.js").status, 404);
  EXPECT_EQ(s.get("/health").status, 200);
  TemplateServer whole;
  whole.start();
  for (const char* path : {"/slots", "/metrics", "/"}) EXPECT_EQ(whole.get(path).status, 200) << path;
}

TEST(ServerDefaults, ResponsesTellHowFarThePromptIsAndHowLongItTakes) {
  TemplateServer s;
  s.start();
  const auto events =
      s.stream("/v1/responses", R"({"input":"x","stream":true,"timings_per_token":true,"return_progress":true})");
  ASSERT_EQ(events.status, 200) << events.body;
  bool timed = false;
  for (const SseEvent& event : events.list) {
    const Json data = parse_json(event.data);
    const std::string type = text_at(json_at(data, "type"));
    timed |= type == "response.output_text.delta" && !json_at(data, "timings", "predicted_per_second").is_null();
    if (type == "response.completed") {
      EXPECT_FALSE(json_at(data, "timings", "prompt_n").is_null());
    }
  }
  EXPECT_TRUE(timed);
  const auto plain = s.stream("/v1/responses", R"({"input":"x","stream":true})");
  for (const SseEvent& event : plain.list) EXPECT_EQ(event.data.find("timings"), std::string::npos);
}

}  // namespace
}  // namespace quire
