// Tools over every chat dialect: what the model writes as a call comes as one, whole and streamed; calls and results go
// back to the template as they were; what cannot be kept is refused by its path.
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kTemplate =
    "{{ bos_token }}{% if tools %}[tools]{{ tools | tojson }}</s>{% endif %}"
    "{% for m in messages %}[{{ m.role }}{% if m.name %} {{ m.name }}{% endif %}]{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}</s>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";
constexpr const char* kPlain = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
constexpr const char* kCall =
    "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Par\\u00eds\"}}\n</tool_call>";

struct ToolServer : TestServer {
  explicit ToolServer(const char* source = kTemplate) {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = source;
    tokenizer = tiny_tokenizer(spec);
    engine.script = [this](const Request& r) {
      prompt.clear();
      for (const Token id : r.prompt) tokenizer->append_bytes(id, true, prompt);
      return byte_tokens(reply);
    };
  }
  std::string prompt;
  std::string reply = std::string("I look.\n") + kCall;
};

std::string nested(const std::string& more = "") {
  return R"("tools":[{"type":"function","function":{"name":"get","parameters":{"type":"object"}}},
    {"type":"function","function":{"name":"other"}}])" +
         more;
}
std::string chat(const std::string& fields) { return R"({"messages":[{"role":"user","content":"x"}],)" + fields + "}"; }
std::string flat() {
  return R"("tools":[{"type":"function","name":"get","description":"d","parameters":{"type":"object"}}])";
}
std::string anthropic(const std::string& fields) {
  return R"({"max_tokens":200,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"get","input_schema":{"type":"object"}}])" +
         fields + "}";
}

TEST(Tools, ChatAnswersWithCalls) {
  ToolServer s;
  s.start();
  const HttpResponse r = s.post("/v1/chat/completions", chat(nested()));
  ASSERT_EQ(r.status, 200) << r.body;
  const Json choice = json_at(parse_json(r.body), "choices", 0);
  EXPECT_EQ(text_at(json_at(choice, "finish_reason")), "tool_calls");
  EXPECT_EQ(text_at(json_at(choice, "message", "content")), "I look.");
  const Json call = json_at(choice, "message", "tool_calls", 0);
  EXPECT_EQ(text_at(json_at(call, "id")).size(), 9U);
  EXPECT_EQ(text_at(json_at(call, "type")), "function");
  EXPECT_EQ(json_at(call, "function").dump(), R"({"name":"get","arguments":"{\"city\": \"Par\\u00eds\"}"})");
  EXPECT_EQ(
      s.prompt.substr(0, s.prompt.find("</s>")),
      R"(<s>[tools][{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}, )"
      R"({"type": "function", "function": {"name": "other", "parameters": {"type": "object", "properties": {}}}}])");
}

TEST(Tools, ChatStreamsTheSame) {
  ToolServer s;
  s.start();
  const auto e = s.stream("/v1/chat/completions", chat(nested(R"(,"stream":true,"n":2)")));
  ASSERT_EQ(e.status, 200) << e.body;
  for (int64_t index : {0, 1}) {
    std::string id, name, arguments, reason;
    for (const SseEvent& event : e.list) {
      if (event.data == "[DONE]") continue;
      const Json choice = json_at(parse_json(event.data), "choices", 0);
      if (int_at(json_at(choice, "index")) != index) continue;
      if (json_at(choice, "finish_reason").as_string() != nullptr) reason = text_at(json_at(choice, "finish_reason"));
      for (const Json& call : list_of(json_at(choice, "delta", "tool_calls"))) {
        EXPECT_EQ(int_at(json_at(call, "index")), 0);
        if (call.find("id") != nullptr) id += text_at(json_at(call, "id"));
        if (json_at(call, "function", "name").as_string() != nullptr)
          name += text_at(json_at(call, "function", "name"));
        arguments += text_at(json_at(call, "function", "arguments"));
      }
    }
    EXPECT_EQ(joined_text(e, index), "I look.");
    EXPECT_EQ(id.size(), 9U);
    EXPECT_EQ(name, "get");
    EXPECT_EQ(arguments, R"({"city": "Par\u00eds"})");
    EXPECT_EQ(reason, "tool_calls");
  }
}

TEST(Tools, WhatMaxTokensCutIsLength) {
  ToolServer s;
  s.start();
  for (const int n : {20, 40, 62}) {
    const HttpResponse r = s.post("/v1/chat/completions", chat(nested(",\"max_tokens\":" + std::to_string(n))));
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "choices", 0, "finish_reason")), "length") << n << r.body;
    const auto e =
        s.stream("/v1/chat/completions", chat(nested(",\"stream\":true,\"max_tokens\":" + std::to_string(n))));
    ASSERT_GE(e.list.size(), 2U);
    EXPECT_EQ(text_at(json_at(parse_json(e.list[e.list.size() - 2].data), "choices", 0, "finish_reason")), "length");
  }
}

TEST(Tools, OnlyOneCallWhereParallelOnesAreNotWanted) {
  ToolServer s;
  s.reply = std::string(kCall) + "\n" + kCall + "\n and more text";
  s.start();
  for (const bool parallel : {true, false}) {
    const HttpResponse r = s.post(
        "/v1/chat/completions", chat(nested(std::string(",\"parallel_tool_calls\":") + (parallel ? "true" : "false"))));
    const Json j = parse_json(r.body);
    EXPECT_EQ(list_of(json_at(j, "choices", 0, "message", "tool_calls")).size(), parallel ? 2U : 1U);
    EXPECT_EQ(text_at(json_at(j, "choices", 0, "finish_reason")), "tool_calls");
    const std::string first(kCall);
    const auto n_first = static_cast<int64_t>(first.rfind('}') + 1);
    EXPECT_EQ(int_at(json_at(j, "usage", "completion_tokens")),
              parallel ? static_cast<int64_t>(s.reply.size()) + 1 : n_first);
  }
  const HttpResponse r =
      s.post("/v1/messages", anthropic(R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":true})"));
  EXPECT_EQ(list_of(json_at(parse_json(r.body), "content")).size(), 1U) << r.body;
}

TEST(Tools, ResponsesHaveItemsOfCallsAndKeepThem) {
  ToolServer s;
  s.start();
  const HttpResponse r = s.post("/v1/responses", R"({"input":"x",)" + flat() + "}");
  ASSERT_EQ(r.status, 200) << r.body;
  const Json j = parse_json(r.body), call = json_at(j, "output", 1);
  EXPECT_EQ(text_at(json_at(j, "output", 0, "content", 0, "text")), "I look.");
  EXPECT_EQ(text_at(json_at(call, "type")), "function_call");
  EXPECT_EQ(text_at(json_at(call, "name")), "get");
  EXPECT_EQ(text_at(json_at(call, "arguments")), R"({"city": "Par\u00eds"})");
  EXPECT_EQ(text_at(json_at(call, "status")), "completed");
  const std::string id = text_at(json_at(call, "call_id"));
  const std::string next = R"([{"type":"function_call_output","call_id":")" + id + R"(","output":"21"}])";
  EXPECT_EQ(s.post("/v1/responses", R"({"previous_response_id":")" + text_at(json_at(j, "id")) + R"(","input":)" +
                                        next + "," + flat() + "}")
                .status,
            200);
  const std::string dialog = std::string("[user]x</s>[assistant]I look.") + kCall + "</s>[tool get]21</s>[assistant]";
  EXPECT_EQ(s.prompt.substr(s.prompt.find("[user]")), dialog) << "byte for byte";
  const std::string items = R"([{"role":"user","content":"x"},{"role":"assistant","content":"I look."},)" +
                            call.dump() + "," + next.substr(1);
  EXPECT_EQ(s.post("/v1/responses", R"({"input":)" + items + "," + flat() + "}").status, 200);
  EXPECT_EQ(s.prompt.substr(s.prompt.find("[user]")), dialog);
}

TEST(Tools, ResponsesStreamEventsOfCalls) {
  ToolServer s;
  s.start();
  const auto e = s.stream("/v1/responses", R"({"input":"x","stream":true,)" + flat() + "}");
  std::string arguments, done;
  Json output;
  for (const SseEvent& event : e.list) {
    const Json j = parse_json(event.data);
    const std::string type = text_at(json_at(j, "type"));
    if (type == "response.function_call_arguments.delta") arguments += text_at(json_at(j, "delta"));
    if (type == "response.function_call_arguments.done") done = text_at(json_at(j, "arguments"));
    if (type == "response.completed") output = json_at(j, "response", "output");
  }
  EXPECT_EQ(arguments, R"({"city": "Par\u00eds"})");
  EXPECT_EQ(done, arguments);
  EXPECT_EQ(list_of(output).size(), 2U);
  EXPECT_EQ(text_at(json_at(output, 1, "arguments")), arguments);
}

TEST(Tools, AnthropicHasBlocksOfCalls) {
  ToolServer s;
  s.start();
  const HttpResponse r = s.post("/v1/messages", anthropic(""));
  ASSERT_EQ(r.status, 200) << r.body;
  const Json j = parse_json(r.body), block = json_at(j, "content", 1);
  EXPECT_EQ(text_at(json_at(j, "stop_reason")), "tool_use");
  EXPECT_EQ(text_at(json_at(j, "content", 0, "text")), "I look.");
  EXPECT_EQ(text_at(json_at(block, "type")), "tool_use");
  EXPECT_EQ(json_at(block, "input").dump(), "{\"city\":\"Par\u00eds\"}");
  const auto e = s.stream("/v1/messages", anthropic(R"(,"stream":true)"));
  std::string arguments, reason;
  for (const SseEvent& event : e.list) {
    const Json piece = json_at(parse_json(event.data), "delta");
    if (json_at(piece, "partial_json").as_string() != nullptr) arguments += text_at(json_at(piece, "partial_json"));
    if (json_at(piece, "stop_reason").as_string() != nullptr) reason = text_at(json_at(piece, "stop_reason"));
  }
  EXPECT_EQ(arguments, R"({"city": "Par\u00eds"})");
  EXPECT_EQ(reason, "tool_use");
  const std::string turn = R"({"max_tokens":9,"tools":[{"name":"get","input_schema":{"type":"object"}}],"messages":[
    {"role":"user","content":"x"},{"role":"assistant","content":)" +
                           json_at(j, "content").dump() +
                           R"(},{"role":"user","content":[{"type":"tool_result","tool_use_id":")" +
                           text_at(json_at(block, "id")) + R"(","content":[{"type":"text","text":"21"}]}]}]})";
  EXPECT_EQ(s.post("/v1/messages", turn).status, 200);
  EXPECT_NE(s.prompt.find("[assistant]I look.<tool_call>"), std::string::npos) << s.prompt;
  EXPECT_NE(s.prompt.find("</s>[tool get]21</s>[assistant]"), std::string::npos) << s.prompt;
}

TEST(Tools, OllamaTellsWholeCalls) {
  ToolServer s;
  s.start();
  const std::string ask = R"({"messages":[{"role":"user","content":"x"}],)" + nested();
  const HttpResponse r = s.post("/api/chat", ask + R"(,"stream":false})");
  ASSERT_EQ(r.status, 200) << r.body;
  const Json message = json_at(parse_json(r.body), "message");
  EXPECT_EQ(json_at(message, "tool_calls").dump(),
            "[{\"function\":{\"name\":\"get\",\"arguments\":{\"city\":\"Par\u00eds\"}}}]");
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "done_reason")), "stop");
  const HttpResponse lines = s.post("/api/chat", ask + "}");
  EXPECT_NE(
      lines.body.find("\"tool_calls\":[{\"function\":{\"name\":\"get\",\"arguments\":{\"city\": \"Par\\u00eds\"}}}]"),
      std::string::npos)
      << lines.body;
  EXPECT_EQ(
      s.post("/api/chat", R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":
    [{"function":{"name":"get","arguments":{"a":1}}}]},{"role":"tool","tool_name":"get","content":"21"}],"stream":false})")
          .status,
      200);
  EXPECT_NE(s.prompt.find("\"arguments\": {\"a\":1}}\n</tool_call></s>[tool get]21"), std::string::npos) << s.prompt;
}

TEST(Tools, CallsOfEarlierTurnsReturnByteForByte) {
  ToolServer s;
  s.start();
  EXPECT_EQ(s.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"},
    {"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"get",
    "arguments":"{ \"b\" :1.50,\"a\":\"\\u00e9</s>\"}"}}]},{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"ok"}]}]})")
                .status,
            200);
  EXPECT_NE(s.prompt.find("\"arguments\": { \"b\" :1.50,\"a\":\"\\u00e9</s>\"}}\n</tool_call></s>[tool get]ok</s>"),
            std::string::npos)
      << s.prompt;
}

TEST(Tools, WithoutAChoiceOfCallsThereAreNone) {
  ToolServer s;
  s.start();
  const HttpResponse r = s.post("/v1/chat/completions", chat(nested(R"(,"tool_choice":"none")")));
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "choices", 0, "message", "content")), s.reply) << r.body;
  EXPECT_EQ(s.prompt.find("[tools]"), std::string::npos);
  const std::string allowed =
      R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"other"}}]}})";
  const HttpResponse others = s.post("/v1/chat/completions", chat(nested(allowed)));
  EXPECT_EQ(text_at(json_at(parse_json(others.body), "choices", 0, "finish_reason")), "stop") << others.body;
  EXPECT_NE(s.prompt.find("[tools]"), std::string::npos);
}

struct Refused {
  const char* path;
  std::string body;
  const char* field;
};

TEST(Tools, WhatCannotBeKeptIsRefusedByItsPath) {
  ToolServer s;
  s.start();
  const auto turn = [](const std::string& message) {
    return R"({"messages":[{"role":"user","content":"x"},)" + message + "]}";
  };
  const char* kChat = "/v1/chat/completions";
  const Refused cases[] = {
      {kChat, chat(R"("tools":[{"type":"web_search"}])"), "tools[0].type"},
      {kChat, chat(R"("tools":[{"type":"mcp","server_url":"x"}])"), "tools[0].type"},
      {kChat, chat(R"("tools":[{"type":"function"}])"), "tools[0].function"},
      {kChat, chat(R"("tools":[{"type":"function","function":{}}])"), "tools[0].function.name"},
      {kChat,
       chat(R"("tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}])"),
       "tools[1].function.name"},
      {kChat, chat(nested(R"(,"tool_choice":"sometimes")")), "tool_choice"},
      {kChat, chat(nested(R"(,"tool_choice":{"type":"function","function":{"name":"none"}})")), "tool_choice"},
      {kChat, chat(R"("tool_choice":"required")"), "tool_choice"},
      {kChat,
       chat(nested(
           R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"some","tools":[{"type":"function","function":{"name":"get"}}]}})")),
       "tool_choice.allowed_tools.mode"},
      {"/v1/responses",
       R"({"input":"x","tools":[{"type":"function","name":"get"}],"tool_choice":{"type":"allowed_tools","mode":"some","tools":[{"type":"function","name":"get"}]}})",
       "tool_choice.mode"},
      {kChat, turn(R"({"role":"assistant","tool_calls":[{"id":"1","function":{"name":"a","arguments":"{\"b\":"}}]})"),
       "messages[1].tool_calls[0].function.arguments"},
      {kChat, turn(R"({"role":"assistant","tool_calls":[{"id":"1","function":{"name":"a","arguments":"[1]"}}]})"),
       "messages[1].tool_calls[0].function.arguments"},
      {kChat, turn(R"({"role":"assistant","tool_calls":[{"id":"1"}]})"), "messages[1].tool_calls[0].function"},
      {kChat, turn(R"({"role":"user","content":"x","tool_calls":[{"id":"1"}]})"), "messages[1].tool_calls"},
      {kChat, turn(R"({"role":"tool","content":"x"})"), "messages[1].tool_call_id"},
      {"/v1/responses", R"({"input":"x","tools":[{"type":"web_search"}]})", "tools[0].type"},
      {"/v1/responses", R"({"input":[{"type":"function_call","call_id":"1","name":"a","arguments":"x"}]})",
       "input[0].arguments"},
      {"/v1/responses", R"({"input":[{"type":"computer_call"}]})", "input[0].type"},
  };
  for (const Refused& one : cases) {
    const HttpResponse r = s.post(one.path, one.body);
    EXPECT_EQ(r.status, 400) << one.body;
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), one.field) << r.body;
  }
  for (
      const auto& [body, words] :
      {std::pair{anthropic(R"(,"tool_choice":{"type":"most"})"), "tool_choice.type"},
       {R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"bash_20250124","name":"bash"}]})",
        "bash_20250124"}}) {
    const HttpResponse r = s.post("/v1/messages", body);
    EXPECT_EQ(r.status, 400);
    EXPECT_NE(r.body.find(words), std::string::npos) << r.body;
  }
}

TEST(Tools, ATemplateWithoutToolsIsToldThemInWords) {
  ToolServer s(kPlain);
  s.start();
  const HttpResponse r = s.post("/v1/chat/completions", chat(nested()));
  ASSERT_EQ(r.status, 200) << r.body;
  const Json call = json_at(parse_json(r.body), "choices", 0, "message", "tool_calls", 0, "function");
  EXPECT_EQ(call.dump(), R"({"name":"get","arguments":"{\"city\": \"Par\\u00eds\"}"})");
  EXPECT_EQ(s.prompt.find("<s>[user]You can call functions"), 0U) << s.prompt;
  EXPECT_NE(s.prompt.find("\n{\"name\":\"other\""), std::string::npos) << s.prompt;
  const std::string next =
      R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"I look.","tool_calls":[{"id":"1",
          "type":"function","function":{"name":"get","arguments":"{\"city\": \"Par\\u00eds\"}"}}]},
          {"role":"tool","tool_call_id":"1","content":"21"}],)";
  ASSERT_EQ(s.post("/v1/chat/completions", next + nested() + "}").status, 200);
  const std::string history =
      "x[assistant]I look.\n" + std::string(kCall) + "[user]<tool_response>\n21\n</tool_response>";
  EXPECT_NE(s.prompt.find(history), std::string::npos) << s.prompt;
  ASSERT_EQ(s.post("/v1/chat/completions", next + R"("stop":["q"]})").status, 200) << "calls without tools";
  EXPECT_EQ(s.prompt, "<s>[user]" + history);
}

TEST(Tools, CallsWithoutMarksCountWhereTheyWereToldInWordsAndNothingHasToBeObeyed) {
  const std::string bare = R"({"name": "get", "arguments": {"city": "x"}})";
  const auto n_calls = [&](const char* source, const std::string& tools) {
    ToolServer s(source);
    s.reply = bare;
    s.start();
    const HttpResponse r = s.post("/v1/chat/completions", chat(tools));
    EXPECT_EQ(r.status, 200) << r.body;
    const Json choice = json_at(parse_json(r.body), "choices", 0);
    const size_t n = list_of(json_at(choice, "message", "tool_calls")).size();
    EXPECT_EQ(text_at(json_at(choice, "finish_reason")), n > 0 ? "tool_calls" : "stop");
    EXPECT_EQ(json_at(choice, "message", "content"), n > 0 ? Json() : Json(bare));
    return n;
  };
  EXPECT_EQ(n_calls(kPlain, nested()), 1U);
  EXPECT_EQ(n_calls(kTemplate, nested()), 0U);
  EXPECT_EQ(n_calls(kPlain, nested(R"(,"response_format":{"type":"json_object"})")), 0U);
  EXPECT_EQ(n_calls(kPlain, R"("tools":[{"type":"function","function":{"name":"get","strict":true,
    "parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}])"),
            0U);
}

TEST(Tools, OfAFormThatNobodyTellsTheModelAreRefused) {
  ToolServer plain(kPlain);
  plain.options.tool_format = "granite";
  plain.start();
  const HttpResponse r = plain.post("/v1/chat/completions", chat(nested()));
  EXPECT_EQ(r.status, 400);
  EXPECT_NE(r.body.find("shows none"), std::string::npos) << r.body;
  ToolServer named(
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}");
  named.options.tool_format = "hermes";
  named.start();
  EXPECT_EQ(named.post("/v1/chat/completions", chat(nested())).status, 200);
  ToolServer unknown;
  unknown.options.tool_format = "morse";
  const auto started =
      start_serving(unknown.options, unknown.engine, *unknown.tokenizer, unknown.metrics, unknown.signal);
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("'morse'"), std::string::npos);
}

}  // namespace
}  // namespace quire
