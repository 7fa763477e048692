// Over all dialects: what a stream says, joined, is what the whole answer says, however many tokens come at a time;
// reasoning is taken out; fields that are not known are ignored with a warning at any depth, those that are known and
// not supported are refused by name.
#include <algorithm>

#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if enable_thinking %}E{% endif %}"
    "{% if reasoning_effort %}{{ reasoning_effort }}{% endif %}{% if open %}<think>\n{% endif %}"
    "{# <think></think> #}";

struct Said {
  std::string text, reasoning;
  bool operator==(const Said&) const = default;
};

std::string string_of(const Json& value) { return value.as_string() != nullptr ? *value.as_string() : ""; }

struct Dialect {
  const char* name;
  const char* path;
  std::string body;  // a JSON object without its last brace
  Said (*whole)(const Json&);
  void (*add)(const Json& event, Said& said);
};

const std::vector<Dialect>& dialects() {
  static const std::vector<Dialect> all = {
      {"completions", "/v1/completions", R"({"prompt":"x","max_tokens":400)",
       [](const Json& j) { return Said{string_of(json_at(j, "choices", 0, "text")), ""}; },
       [](const Json& e, Said& said) { said.text += string_of(json_at(e, "choices", 0, "text")); }},
      {"chat", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}])",
       [](const Json& j) {
         const Json m = json_at(j, "choices", 0, "message");
         return Said{string_of(json_at(m, "content")), string_of(json_at(m, "reasoning_content"))};
       },
       [](const Json& e, Said& said) {
         said.text += string_of(json_at(e, "choices", 0, "delta", "content"));
         said.reasoning += string_of(json_at(e, "choices", 0, "delta", "reasoning_content"));
       }},
      {"responses", "/v1/responses", R"({"input":"x")",
       [](const Json& j) {
         Said out;
         for (const Json& item : list_of(json_at(j, "output")))
           (string_of(json_at(item, "type")) == "message" ? out.text : out.reasoning) +=
               string_of(json_at(item, "content", 0, "text"));
         return out;
       },
       [](const Json& e, Said& said) {
         const std::string type = string_of(json_at(e, "type"));
         if (type == "response.output_text.delta") said.text += string_of(json_at(e, "delta"));
         if (type == "response.reasoning_text.delta") said.reasoning += string_of(json_at(e, "delta"));
       }},
      {"messages", "/v1/messages", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":400)",
       [](const Json& j) {
         Said out;
         for (const Json& block : list_of(json_at(j, "content"))) {
           out.text += string_of(json_at(block, "text"));
           out.reasoning += string_of(json_at(block, "thinking"));
         }
         return out;
       },
       [](const Json& e, Said& said) {
         said.text += string_of(json_at(e, "delta", "text"));
         said.reasoning += string_of(json_at(e, "delta", "thinking"));
       }},
      {"ollama chat", "/api/chat", R"({"messages":[{"role":"user","content":"x"}])",
       [](const Json& j) {
         return Said{string_of(json_at(j, "message", "content")), string_of(json_at(j, "message", "thinking"))};
       },
       [](const Json& e, Said& said) {
         said.text += string_of(json_at(e, "message", "content"));
         said.reasoning += string_of(json_at(e, "message", "thinking"));
       }},
      {"ollama generate", "/api/generate", R"({"prompt":"x")",
       [](const Json& j) { return Said{string_of(json_at(j, "response")), string_of(json_at(j, "thinking"))}; },
       [](const Json& e, Said& said) {
         said.text += string_of(json_at(e, "response"));
         said.reasoning += string_of(json_at(e, "thinking"));
       }},
      {"generate", "/generate", R"({"text":"x","max_tokens":400)",
       [](const Json& j) { return Said{string_of(json_at(j, "choices", 0, "text")), ""}; },
       [](const Json& e, Said& said) { said.text += string_of(json_at(e, "text")); }},
  };
  return all;
}

struct DialectServer : TestServer {
  DialectServer() {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = kTemplate;
    tokenizer = tiny_tokenizer(std::move(spec));
    engine.script = [this](const Request& r) {
      prompt = r.prompt;
      return byte_tokens(reply);
    };
  }
  // Of a stream of events or of lines.
  Said streamed(const Dialect& d, const std::string& more) const {
    Said out;
    const HttpResponse r = post(d.path, d.body + more + R"(,"stream":true})");
    EXPECT_EQ(r.status, 200) << d.name << r.body;
    const auto add = [&](std::string_view data) {
      if (data != "[DONE]") d.add(parse_json(data), out);
    };
    if (!r.body.starts_with("{")) {
      SseReader().feed(r.body, [&](SseEvent&& e) { add(e.data); });
      return out;
    }
    for (size_t at = 0, end = 0; (end = r.body.find('\n', at)) != std::string::npos; at = end + 1)
      add(std::string_view(r.body).substr(at, end - at));
    return out;
  }
  Said whole(const Dialect& d, const std::string& more) const {
    const HttpResponse r = post(d.path, d.body + more + R"(,"stream":false})");
    EXPECT_EQ(r.status, 200) << d.name << r.body;
    return d.whole(parse_json(r.body));
  }
  std::string prompt_text() const {
    std::string out;
    for (const Token id : prompt) tokenizer->append_bytes(id, false, out);
    return out;
  }
  std::string reply;
  std::vector<Token> prompt;
};

bool splits(const Dialect& d) { return d.path != std::string("/v1/completions") && d.path != std::string("/generate"); }

TEST(Dialects, AStreamSaysWhatTheWholeSaysHoweverItIsCut) {
  static constexpr std::string_view kPieces[] = {"<think>",  "</think>", "<",   " ", "\n", "abc", "ü",
                                                 "\xe2\x80", "\xff",     "STO", "P", "🦜", "x",   "</thin"};
  Rng rng(1);
  for (int round = 0; round < 6; ++round) {
    DialectServer s;
    s.engine.tokens_per_step = round + 1;
    for (int64_t n = rng.between(1, 24); n > 0; --n) s.reply += kPieces[static_cast<size_t>(rng.between(0, 13))];
    if (round % 2 == 0) s.reply = "<think>" + s.reply;
    s.start();
    for (const Dialect& d : dialects()) {
      const std::string stop = d.path == std::string("/v1/messages") ? R"(,"stop_sequences":["STOP"])"
                               : d.path[1] == 'a'                    ? R"(,"options":{"stop":["STOP"]})"
                                                                     : R"(,"stop":["STOP"])";
      const Said whole = s.whole(d, stop);
      EXPECT_EQ(s.streamed(d, stop), whole) << d.name << " of " << s.reply;
    }
  }
}

TEST(Dialects, ReasoningIsTakenOutOfTheText) {
  DialectServer s;
  s.reply = "<think>\nHm.\n</think>\n\nYes.";
  s.start();
  for (const Dialect& d : dialects()) {
    const Said want = splits(d) ? Said{"Yes.", "Hm."} : Said{s.reply, ""};
    EXPECT_EQ(s.whole(d, ""), want) << d.name;
    EXPECT_EQ(s.streamed(d, ""), want) << d.name;
  }
  const Dialect& chat = dialects()[1];
  EXPECT_EQ(s.whole(chat, R"(,"separate_reasoning":false)"), (Said{s.reply, ""}));
  EXPECT_EQ(s.whole(chat, R"(,"reasoning_format":"none")"), (Said{s.reply, ""}));
  s.reply = "Hm.</think>Yes.";
  EXPECT_EQ(s.whole(chat, R"(,"chat_template_kwargs":{"open":true})"), (Said{"Yes.", "Hm."})) << "the prompt opened it";
  const Json usage =
      json_at(parse_json(s.post(chat.path, chat.body + R"(,"chat_template_kwargs":{"open":1}})").body), "usage");
  EXPECT_EQ(int_at(json_at(usage, "completion_tokens")), 16);
  EXPECT_EQ(int_at(json_at(usage, "completion_tokens_details", "reasoning_tokens")), 11);
}

TEST(Dialects, ThinkingIsAskedOfTheTemplate) {
  DialectServer s;
  s.reply = "y";
  s.start();
  const auto prompt_of = [&](size_t dialect, const std::string& more) {
    s.whole(dialects()[dialect], more);
    return s.prompt_text();
  };
  EXPECT_EQ(prompt_of(1, ""), "x");
  EXPECT_EQ(prompt_of(1, R"(,"chat_template_kwargs":{"enable_thinking":true})"), "xE");
  EXPECT_EQ(prompt_of(1, R"(,"reasoning_effort":"high")"), "xhigh");
  EXPECT_EQ(prompt_of(2, R"(,"reasoning":{"effort":"low"})"), "xlow");
  EXPECT_EQ(prompt_of(3, R"(,"thinking":{"type":"enabled","budget_tokens":2000})"), "xE");
  EXPECT_EQ(prompt_of(3, ""), "x");
  EXPECT_EQ(prompt_of(4, R"(,"think":true)"), "xE");
  EXPECT_EQ(prompt_of(5, R"(,"think":"medium")"), "xEmedium");
  EXPECT_EQ(s.post("/v1/chat/completions", dialects()[1].body + R"(,"reasoning_effort":"much"})").status, 400);
  TestServer plain;
  plain.start();
  const HttpResponse refused = plain.post("/api/chat", R"({"messages":[{"role":"user","content":"x"}],"think":true})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("does not think"), std::string::npos) << refused.body;
  // Anthropic's clients send the field to every model.
  const HttpResponse warned =
      plain.post("/v1/messages", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":4,)"
                                 R"("thinking":{"type":"enabled","budget_tokens":1024}})");
  EXPECT_EQ(warned.status, 200) << warned.body;
  ASSERT_NE(warned.header("x-quire-warning"), nullptr);
  EXPECT_NE(warned.header("x-quire-warning")->find("does not think"), std::string::npos);
}

TEST(Dialects, UnknownFieldsAreNamedInAWarningAtAnyDepth) {
  DialectServer s;
  s.reply = "y";
  s.start();
  const auto warning = [&](const char* path, const std::string& body) {
    const HttpResponse r = s.post(path, body);
    EXPECT_EQ(r.status, 200) << r.body;
    const std::string* found = r.header("x-quire-warning");
    return found != nullptr ? *found : std::string();
  };
  for (const Dialect& d : dialects())
    EXPECT_EQ(warning(d.path, d.body + R"(,"stream":false,"frobnicate":1})"), "unknown fields were ignored: frobnicate")
        << d.name;
  EXPECT_EQ(warning("/tokenize", R"({"content":"x","frobnicate":1})"), "unknown fields were ignored: frobnicate");
  const std::string message = R"("messages":[{"role":"user","content":"x","mood":1}])";
  const std::string parts = R"("messages":[{"role":"user","content":[{"type":"text","text":"x","mood":1}]}])";
  EXPECT_EQ(warning("/v1/chat/completions", "{" + message + "}"), "unknown fields were ignored: messages[0].mood");
  EXPECT_EQ(warning("/v1/chat/completions", "{" + parts + "}"),
            "unknown fields were ignored: messages[0].content[0].mood");
  EXPECT_EQ(warning("/v1/messages", R"({"model":"gpt","max_tokens":4,)" + message + "}"),
            "unknown fields were ignored: messages[0].mood; model gpt is not loaded; answered by tiny");
  EXPECT_EQ(warning("/api/chat", R"({"stream":false,"options":{"mood":1},)" + message + "}"),
            "unknown fields were ignored: options.mood messages[0].mood");
  EXPECT_EQ(warning("/v1/responses", R"({"input":[{"role":"user","content":"x","mood":1}],"text":{"mood":2}})"),
            "unknown fields were ignored: text.mood input[0].mood");
}

TEST(Dialects, WhatIsKnownAndNotSupportedIsRefusedByName) {
  DialectServer s;
  s.start();
  for (const Dialect& d : dialects()) {
    const std::string more = d.path[1] == 'a' ? R"(,"options":{"stop_regex":"x"}})" : R"(,"stop_regex":"x"})";
    const HttpResponse r = s.post(d.path, d.body + more);
    EXPECT_EQ(r.status, 400) << d.name;
    EXPECT_NE(r.body.find("stop_regex' is not supported yet"), std::string::npos) << r.body;
  }
}

}  // namespace
}  // namespace quire
