// Structured output as clients ask for it: every name, in every dialect, becomes the same constraint of the engine's
// request; what cannot be kept is refused by field and place.
#include <chrono>
#include <mutex>
#include <thread>

#include "sample/constraint.h"
#include "sample/thinking_budget.h"
#include "serve/grammar_cache.h"
#include "serve/testing.h"

namespace quire {
namespace {

// Remembers what the engine was asked.
struct StructuredServer : TestServer {
  explicit StructuredServer(const char* chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}") {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = chat_template;
    tokenizer = tiny_tokenizer(std::move(spec));
    engine.script = [this](const Request& r) {
      const std::lock_guard lock(mu);
      sampling = r.sampling;
      stop_ids = r.stop_ids;
      has_end_rule = r.end != nullptr;
      return byte_tokens("{}");
    };
  }
  // "notation: text" of the constraint that a request gave, or how it was refused.
  std::string asked(const std::string& path, const std::string& body) {
    const HttpResponse r = post(path, body);
    if (r.status != 200) return std::to_string(r.status) + " " + r.body;
    const std::lock_guard lock(mu);
    if (sampling.constraint == nullptr) return "nothing";
    EXPECT_NE(sampling.constraint->grammar, nullptr);
    const std::string& source = sampling.constraint->source;
    return source.substr(0, source.find(' ')) + ": " + source.substr(source.find('\n') + 1);
  }
  std::string source() {
    const std::lock_guard lock(mu);
    return sampling.constraint == nullptr ? "" : sampling.constraint->source;
  }
  std::mutex mu;
  SamplingParams sampling;
  std::vector<Token> stop_ids;
  bool has_end_rule = false;
};

std::string text(const std::string& more) { return R"({"prompt":"x",)" + more + "}"; }
std::string chat(const std::string& more) { return R"({"messages":[{"role":"user","content":"x"}],)" + more + "}"; }

TEST(Structured, EveryNameIsRead) {
  StructuredServer s;
  s.start();
  const std::string schema = R"({"type":"object","properties":{"b":{"type":"integer"},"a":{}}})";
  const std::string quoted = R"("{\"type\":\"integer\"}")";
  const std::pair<std::string, std::string> cases[] = {
      {R"("response_format":{"type":"text"})", "nothing"},
      {R"("response_format":null)", "nothing"},
      {R"("response_format":{"type":"json_object"})", "json_object: "},
      {R"("response_format":{"type":"json_object","schema":)" + schema + "}", "json_schema: " + schema},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":)" + schema + "}}",
       "json_schema: " + schema},
      {R"("response_format":{"type":"structural_tag","format":{"type":"any_text"}})",
       R"(structural_tag: {"type":"structural_tag","format":{"type":"any_text"}})"},
      {R"("structured_outputs":{"json":)" + schema + "}", "json_schema: " + schema},
      {R"("structured_outputs":{"json":)" + quoted + "}", R"(json_schema: {"type":"integer"})"},
      {R"("structured_outputs":{"json_object":true})", "json_object: "},
      {R"("structured_outputs":{"json_object":false,"choice":["a","b"]})", R"(choice: ["a","b"])"},
      {R"("structured_outputs":{"regex":"a+","disable_fallback":true})", "regex: a+"},
      {R"("structured_outputs":{"grammar":"root ::= \"x\""})", R"(ebnf: root ::= "x")"},
      {R"("structured_outputs":{"grammar":"start: \"x\""})", R"(lark: start: "x")"},
      {R"("structured_outputs":{"structural_tag":"{\"format\":{\"type\":\"any_text\"}}"})",
       R"(structural_tag: {"format":{"type":"any_text"}})"},
      {R"("structured_outputs":{})", "nothing"},
      {R"("guided_json":)" + schema, "json_schema: " + schema},
      {R"("guided_json_object":true)", "json_object: "},
      {R"("guided_regex":"a|b")", "regex: a|b"},
      {R"("guided_choice":["x"])", R"(choice: ["x"])"},
      {R"("guided_grammar":"root ::= \"x\"","guided_decoding_backend":"auto")", R"(ebnf: root ::= "x")"},
      {R"("json_schema":)" + schema, "json_schema: " + schema},
      {R"("json_schema":)" + quoted, R"(json_schema: {"type":"integer"})"},
      {R"("json_schema":{})", "json_schema: {}"},
      {R"("grammar":"root ::= [a-z]+")", "gbnf: root ::= [a-z]+"},
      {R"("regex":"[0-9]{3}")", "regex: [0-9]{3}"},
      {R"("ebnf":"root ::= 'x'")", "ebnf: root ::= 'x'"},
      {R"("choice":["a"])", R"(choice: ["a"])"},
      {R"("structural_tag":{"format":{"type":"any_text"}})", R"(structural_tag: {"format":{"type":"any_text"}})"},
      {R"("grammar":"","regex":"","ebnf":"","choice":[],"structural_tag":"","json_schema":null)", "nothing"},
  };
  for (const auto& [field, want] : cases) {
    EXPECT_EQ(s.asked("/v1/completions", text(field)), want) << field;
    EXPECT_EQ(s.asked("/v1/chat/completions", chat(field)), want) << field;
    EXPECT_EQ(s.asked("/generate", R"({"text":"x",)" + field + "}"), want) << field;
  }
}

TEST(Structured, DialectsHaveNamesOfTheirOwn) {
  StructuredServer s;
  s.start();
  const std::string schema = R"({"type":"integer"})";
  const std::string format = R"({"type":"json_schema","name":"n","strict":true,"schema":)" + schema + "}";
  const std::string want = "json_schema: " + schema;
  EXPECT_EQ(s.asked("/v1/responses", R"({"input":"x","text":{"format":)" + format + "}}"), want);
  EXPECT_EQ(s.asked("/v1/responses", R"({"input":"x","text":{"format":{"type":"json_object"}}})"), "json_object: ");
  EXPECT_EQ(s.asked("/v1/responses", R"({"input":"x","text":{"format":{"type":"text"}}})"), "nothing");
  const HttpResponse echoed = s.post("/v1/responses", R"({"input":"x","text":{"format":)" + format + "}}");
  EXPECT_EQ(json_at(parse_json(echoed.body), "text", "format").dump(), format);
  EXPECT_EQ(s.asked("/v1/messages", chat(R"("max_tokens":9,"output_config":{"format":)" + format + "}")), want);
  EXPECT_EQ(s.asked("/v1/messages", chat(R"("max_tokens":9,"output_format":)" + format)), want);
  for (const std::string path : {"/api/chat", "/api/generate"}) {
    const auto body = [&](const std::string& more) { return path == "/api/chat" ? chat(more) : text(more); };
    EXPECT_EQ(s.asked(path, body(R"("stream":false,"format":)" + schema)), want);
    EXPECT_EQ(s.asked(path, body(R"("stream":false,"format":"json")")), "json_object: ");
    EXPECT_EQ(s.asked(path, body(R"("stream":false,"format":"")")), "nothing");
  }
}

TEST(Structured, OneConstraintAtMost) {
  StructuredServer s;
  s.start();
  const auto refused = [&](const std::string& path, const std::string& body, const char* what) {
    const HttpResponse r = s.post(path, body);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_NE(r.body.find(what), std::string::npos) << r.body;
  };
  refused("/v1/completions", text(R"("regex":"a","response_format":{"type":"json_object"})"),
          "'regex' stands beside 'response_format': an answer has one constraint at most");
  refused("/v1/completions", text(R"("structured_outputs":{"regex":"a","choice":["a"]})"),
          "'structured_outputs.choice' stands beside 'structured_outputs.regex'");
  refused("/v1/responses", R"({"input":"x","regex":"a","text":{"format":{"type":"json_object"}}})",
          "'text.format' stands beside 'regex'");
  refused("/v1/messages", chat(R"("max_tokens":9,"regex":"a","output_config":{"format":{"type":"json_object"}})"),
          "'output_config.format' stands beside 'regex'");
  refused("/api/chat", chat(R"("format":"json","options":{"regex":"a"})"), "'format' stands beside 'regex'");
}

TEST(Structured, WhatCannotBeKeptIsRefusedByFieldAndPlace) {
  StructuredServer s;
  s.start();
  const std::string deep = std::string(300 << 10, 'a');
  struct Case {
    std::string field, what;
  };
  const Case cases[] = {
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"type":5}}}}})",
       "'response_format.json_schema.schema' cannot be kept: json_schema: #/properties/a/type: must be a string"},
      {R"("guided_json":{"$ref":"http://x/y"})", "'guided_json' cannot be kept: json_schema: #/$ref: "},
      {R"("guided_json":"{")", "'guided_json' cannot be kept: json_schema: "},
      {R"("guided_json":false)", "'guided_json' cannot be kept: json_schema: #: grammar: nothing can match it"},
      {R"("guided_json":7)", "'guided_json' must be"},
      {R"("guided_regex":"(a")", "'guided_regex' cannot be kept: "},
      {R"("guided_regex":")" + deep + R"(")",
       "'guided_regex' cannot be kept: regex: 307200 bytes, the limit is 262144"},
      {R"("guided_choice":["a",1])", "'guided_choice' cannot be kept: choice: #/1: must be a string"},
      {R"("grammar":"root ::= x")", "'grammar' cannot be kept: "},
      {R"("guided_grammar":"start: x")", "'guided_grammar' cannot be kept: "},
      {R"("structural_tag":{"format":{"type":"odd"}})",
       "'structural_tag' cannot be kept: structural_tag: #/format/type"},
      {R"("response_format":{"type":"yaml"})", "'response_format.type' is 'yaml': it must be text, json_object, "},
      {R"("response_format":{})", "'response_format.type' is required"},
      {R"("response_format":{"type":"json_schema"})", "'response_format.json_schema' is required"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})",
       "'response_format.json_schema.schema' is required"},
      {R"("structured_outputs":{"whitespace_pattern":" "})",
       "'structured_outputs.whitespace_pattern' is not supported"},
      {R"("structured_outputs":[])", "'structured_outputs' must be"},
  };
  for (const Case& c : cases) {
    const HttpResponse r = s.post("/v1/chat/completions", chat(c.field));
    EXPECT_EQ(r.status, 400) << c.field.substr(0, 80);
    const Json message = json_at(parse_json(r.body), "error", "message");
    ASSERT_NE(message.as_string(), nullptr) << r.body;
    EXPECT_NE(message.as_string()->find(c.what), std::string::npos) << *message.as_string();
    EXPECT_LT(message.as_string()->size(), 700U);
  }
}

TEST(Structured, ReasoningComesBeforeTheConstraint) {
  StructuredServer s(
      "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if open %}<think>\n{% endif %}"
      "{% if shut %}<think>\n\n</think>\n\n{% endif %}{# enable_thinking: <think></think> #}");
  s.start();
  const auto head = [&](const std::string& path, const std::string& body) {
    s.asked(path, body);
    return s.source().substr(0, s.source().find('\n'));
  };
  const std::string wants = R"("regex":"a")";
  EXPECT_EQ(head("/v1/chat/completions", chat(wants)), "regex think");
  EXPECT_EQ(head("/v1/chat/completions", chat(wants + R"(,"chat_template_kwargs":{"open":true})")), "regex think open");
  EXPECT_EQ(head("/v1/chat/completions", chat(wants + R"(,"chat_template_kwargs":{"shut":true})")), "regex none");
  EXPECT_EQ(head("/v1/chat/completions", chat(wants + R"(,"reasoning_format":"none")")), "regex think");
  EXPECT_EQ(head("/v1/chat/completions", chat(wants + R"(,"reasoning_effort":"none")")), "regex none");
  EXPECT_EQ(head("/v1/completions", text(wants)), "regex none") << "what is no conversation has no reasoning";
}

// Command R's template ends the thinking where it is switched off; the marks of what is said may come all the same.
TEST(Structured, ThinkingThatThePromptEndedDoesNotComeAgain) {
  StructuredServer s(
      "{% for m in messages %}{{ m['content'] }}{% endfor %}"
      "{% if not enable_thinking %}<|START_THINKING|><|END_THINKING|>{% endif %}");
  s.start();
  const auto head = [&](const std::string& more) {
    s.asked("/v1/chat/completions", chat(R"("regex":"a")" + more));
    return s.source().substr(0, s.source().find('\n'));
  };
  EXPECT_EQ(head(R"(,"chat_template_kwargs":{"enable_thinking":true})"), "regex command");
  EXPECT_EQ(head(R"(,"chat_template_kwargs":{"enable_thinking":false})"), "regex command over");
  EXPECT_EQ(head(""), "regex command over");
}

TEST(Structured, AModelWithoutTheHabitThinksWhenItIsAsked) {
  StructuredServer s("{% for m in messages %}{{ m['content'] }}{% endfor %}{# <think></think> #}");
  s.start();
  const auto head = [&](const std::string& more) {
    s.asked("/v1/chat/completions", chat(R"("regex":"a")" + more));
    return s.source().substr(0, s.source().find('\n'));
  };
  EXPECT_EQ(head(""), "regex none");
  EXPECT_EQ(head(R"(,"reasoning_effort":"high")"), "regex think");
  EXPECT_EQ(head(R"(,"chat_template_kwargs":{"enable_thinking":true})"), "regex think");
}

TEST(Structured, TheGrammarSaysWhereTheAnswerEnds) {
  StructuredServer s;
  s.start();
  const HttpResponse r =
      s.post("/v1/completions", text(R"("regex":"a+","stop":["a"],"ignore_eos":true,"stop_token_ids":[7])"));
  EXPECT_EQ(r.status, 200);
  EXPECT_FALSE(s.has_end_rule);
  EXPECT_EQ(s.stop_ids, (std::vector<Token>{7, 2}));
  ASSERT_NE(r.header("x-quire-warning"), nullptr);
  EXPECT_EQ(*r.header("x-quire-warning"), "stop has no effect beside regex");
  const HttpResponse plain = s.post("/v1/completions", text(R"("stop":["a"],"ignore_eos":true)"));
  EXPECT_TRUE(s.has_end_rule);
  EXPECT_TRUE(s.stop_ids.empty());
  EXPECT_EQ(plain.header("x-quire-warning"), nullptr);
}

TEST(Structured, UnknownFormatsAreNamed) {
  StructuredServer s;
  s.start();
  const HttpResponse r = s.post(
      "/v1/completions",
      text(R"("guided_json":{"properties":{"a":{"format":"star date"},"b":{"format":"date"},"c":{"format":"x"}}})"));
  EXPECT_EQ(r.status, 200);
  ASSERT_NE(r.header("x-quire-warning"), nullptr);
  EXPECT_EQ(*r.header("x-quire-warning"),
            "guided_json: not checked: /properties/a/format star?date /properties/c/format x");
}

GrammarSource regex(std::string pattern) { return {GrammarSource::Notation::regex, std::move(pattern)}; }

TEST(GrammarCache, OneCompilationForAllWhoAsk) {
  const auto tokenizer = tiny_tokenizer();
  GrammarCache cache(*tokenizer, 64 << 20);
  std::vector<std::shared_ptr<const Grammar>> got(8);
  std::vector<std::thread> threads;
  for (auto& one : got) threads.emplace_back([&] { one = *cache.get(regex("(a|b){1,400}c[0-9]{5,300}")); });
  for (std::thread& t : threads) t.join();
  for (const auto& one : got) EXPECT_EQ(one, got[0]);
  EXPECT_EQ(cache.stats().n_compiled, 1);
  EXPECT_EQ(cache.stats().n_found, 7);
  EXPECT_EQ(cache.vocabulary(), cache.vocabulary());
  GrammarSource behind = regex("(a|b){1,400}c[0-9]{5,300}");
  behind.reasoning = ReasoningForm::Kind::think;
  EXPECT_NE(*cache.get(behind), got[0]) << "with reasoning it is another";
}

TEST(GrammarCache, WhatCannotBeCompiledIsRemembered) {
  const auto tokenizer = tiny_tokenizer();
  GrammarCache cache(*tokenizer, 64 << 20);
  for (int i = 0; i < 3; ++i) {
    const auto made = cache.get(regex("(a"));
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message, "");
  }
  EXPECT_EQ(cache.stats().n_compiled, 1);
}

TEST(GrammarCache, IsBoundedAndKeepsWhatWasUsedLast) {
  const auto tokenizer = tiny_tokenizer();
  constexpr int64_t kBytes = 1 << 20;
  GrammarCache cache(*tokenizer, kBytes);
  const auto often = *cache.get(regex("often"));
  for (int i = 0; i < 3000; ++i) {
    const auto made = cache.get(regex("x" + std::to_string(i)));
    ASSERT_TRUE(made);
    if (i % 10 == 0) {
      EXPECT_EQ(*cache.get(regex("often")), often);
      EXPECT_LE(cache.stats().bytes, kBytes);
    }
  }
  EXPECT_EQ(cache.stats().n_compiled, 3001);
  EXPECT_LE(cache.stats().n_entries, static_cast<int64_t>(GrammarCache::kMaxEntries));
  EXPECT_GT(cache.stats().n_entries, 10);
  const int64_t n_small = cache.stats().n_entries;
  for (int i = 0; i < 3; ++i) cache.get(regex(std::string(200'000, 'a') + std::to_string(i)));
  EXPECT_LT(cache.stats().n_entries, n_small) << "large ones push out many";
  EXPECT_LE(cache.stats().bytes, kBytes);
}

// Grammars grow by what ended answers leave to them, also when nobody asks for another.
TEST(GrammarCache, WhatGrewIsLetGoOfAlthoughNobodyAsks) {
  const auto tokenizer = tiny_tokenizer();
  const GrammarSource grows = regex("(a|b){1,400}c"), last = regex("last");
  const int64_t n_bytes = [&] {
    GrammarCache both(*tokenizer, 64 << 20);
    EXPECT_TRUE(both.get(grows) && both.get(last));
    return both.stats().bytes;
  }();
  GrammarCache cache(*tokenizer, n_bytes);
  {
    Matcher answer(*cache.get(grows), cache.vocabulary());
    ASSERT_TRUE(cache.get(last));
    std::vector<uint32_t> words(answer.n_words());
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(answer.mask(words) && answer.accept_text("a"));
  }
  EXPECT_EQ(cache.stats().n_entries, 2);
  EXPECT_GT(cache.stats().bytes, n_bytes);
  cache.sweep();
  EXPECT_EQ(cache.stats().n_entries, 1);
  EXPECT_LE(cache.stats().bytes, n_bytes);
  EXPECT_EQ(cache.stats().bytes_elsewhere, 0);
  const std::string text(static_cast<size_t>(n_bytes), 'a');
  const auto large = cache.get({GrammarSource::Notation::choice, "[\"" + text + "\"]"});
  EXPECT_TRUE(large) << large.error().message;
  EXPECT_GT(cache.stats().bytes, n_bytes) << "those who asked for it at once had it";
  cache.sweep();
  EXPECT_EQ(cache.stats().bytes, 0);
}

TEST(GrammarCache, WhatIsKeptIsToldByItsServer) {
  StructuredServer s;
  s.options.limits.grammar_bytes = 1 << 20;
  s.start();
  ASSERT_EQ(s.post("/v1/completions", R"({"prompt":"x","guided_regex":"[0-9]{3}"})").status, 200);
  EXPECT_GT(std::stod(s.metric("quire_kept_bytes{what=\"grammars\"}")), 0);
  EXPECT_EQ(std::stod(s.metric("quire_kept_bytes_limit{what=\"grammars\"}")), 1 << 20);
  EXPECT_EQ(std::stod(s.metric("quire_kept_bytes{what=\"tools\"}")), 0);
  EXPECT_EQ(std::stod(s.metric("quire_kept_bytes_limit{what=\"tools\"}")), 32 << 20);
}

TEST(GrammarCache, IsSweptByItsServer) {
  StructuredServer s;
  s.options.limits.grammar_bytes = 1;
  s.start();
  ASSERT_EQ(s.post("/v1/completions", R"({"prompt":"x","guided_regex":"[0-9]{3}"})").status, 200);
  const auto kept = [&] { return s.metric("quire_kept_bytes{what=\"grammars\"}"); };
  for (int i = 0; i < 2000 && kept() != "0"; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(kept(), "0");
}

// What requests hold of grammars that are not kept any more has a bound too.
TEST(GrammarCache, WhatRequestsHoldBesideItIsBounded) {
  const auto tokenizer = tiny_tokenizer();
  constexpr int64_t kBytes = 1 << 20;
  GrammarCache cache(*tokenizer, kBytes);
  std::vector<std::shared_ptr<const Grammar>> held;
  const auto nth = [](int i) { return regex("(a|b){1,400}c" + std::to_string(i)); };
  while (held.size() < 3000 && !cache.no_room_for(nth(-1))) {
    const auto made = cache.get(nth(static_cast<int>(held.size())));
    ASSERT_TRUE(made) << made.error().message;
    held.push_back(*made);
  }
  ASSERT_LT(held.size(), 3000U);
  const auto one = static_cast<int64_t>(held.back()->bytes());
  EXPECT_GT(cache.stats().bytes_elsewhere, GrammarCache::kElsewhere * kBytes);
  EXPECT_LE(cache.stats().bytes_elsewhere, GrammarCache::kElsewhere * kBytes + one);
  EXPECT_FALSE(cache.no_room_for(nth(static_cast<int>(held.size()) - 1))) << "that is kept";
  held.resize(held.size() / 2);
  EXPECT_FALSE(cache.no_room_for(nth(-1))) << "others have ended";
}

// The rule of the engine is told the model's own marks; who cannot keep a budget refuses it.
TEST(Structured, ABudgetOfThinkingReachesTheEngine) {
  const char* thinks = "{% for m in messages %}{{ m['content'] }}{% endfor %}{# <think></think> #}";
  StructuredServer s(thinks);
  s.start();
  const auto budget = [&](const char* path, const std::string& body) -> std::string {
    const HttpResponse r = s.post(path, body);
    if (r.status != 200) return std::to_string(r.status) + " " + r.body;
    const std::lock_guard lock(s.mu);
    if (s.sampling.thinking == nullptr) return "none";
    const ThinkingBudget& b = *s.sampling.thinking;
    EXPECT_EQ(b.open, "<think>");
    EXPECT_EQ(b.close, "</think>");
    EXPECT_EQ(b.closing, byte_tokens("</think>"));
    EXPECT_NE(b.vocabulary, nullptr);
    return b.field + " " + std::to_string(b.n_tokens);
  };
  const char* path = "/v1/chat/completions";
  EXPECT_EQ(budget(path, chat(R"("max_tokens":4)")), "none");
  EXPECT_EQ(budget(path, chat(R"("thinking_token_budget":null)")), "none");
  EXPECT_EQ(budget(path, chat(R"("thinking_token_budget":7)")), "thinking_token_budget 7");
  EXPECT_EQ(budget(path, chat(R"("thinking_token_budget":0)")), "thinking_token_budget 0");
  EXPECT_EQ(budget(path, chat(R"("thinking_token_budget":1000000000000)")), "thinking_token_budget 2147483647");
  EXPECT_EQ(budget("/v1/completions", text(R"("thinking_token_budget":3)")), "thinking_token_budget 3");
  const std::string anthropic = R"("max_tokens":4,"thinking":{"type":"enabled","budget_tokens":1024})";
  EXPECT_EQ(budget("/v1/messages", chat(anthropic)), "thinking.budget_tokens 1024");
  EXPECT_EQ(budget("/v1/messages", chat(anthropic + R"(,"thinking_token_budget":2)")), "thinking_token_budget 2");
  EXPECT_NE(budget(path, chat(R"("thinking_token_budget":-1)")).find("400"), std::string::npos);
  StructuredServer plain;
  plain.start();
  const HttpResponse refused = plain.post(path, chat(R"("thinking_token_budget":7)"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("thinking_token_budget"), std::string::npos) << refused.body;
  EXPECT_NE(refused.body.find("does not think"), std::string::npos) << refused.body;
}

}  // namespace
}  // namespace quire
