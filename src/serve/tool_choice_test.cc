// What a request says of calls becomes a constraint of the engine's request, in every dialect; parameters that cannot
// be kept are refused by their place.
#include "sample/constraint.h"
#include "serve/marks_testing.h"

namespace quire {
namespace {

constexpr const char* kTemplate =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% if enable_thinking is defined and enable_thinking is false %}"
    "<think></think>{% endif %}{% endif %}";
constexpr const char* kGet = "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
constexpr const char* kOther = "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>";
constexpr const char* kLoose = "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"town\": 3}}\n</tool_call>";

std::string parameters(bool openai) {
  return std::string(openai ? "\"parameters\"" : "\"input_schema\"") +
         R"(:{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false})";
}

// What the engine was asked.
struct ChoiceServer : TestServer {
  explicit ChoiceServer(const char* source = kTemplate,
                        std::string answer = kGet,
                        const std::vector<std::string>& marks = {})
      : reply(std::move(answer)) {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = source;
    mark_tokens.add(marks, spec);
    tokenizer = tiny_tokenizer(spec);
    engine.script = [this](const Request& r) {
      constraint = r.sampling.constraint;
      has_end_rule = r.end != nullptr;
      return mark_tokens.spell(reply);
    };
    start();
  }
  // Whether the answer that a request is held to may be `text`.
  bool takes(std::string_view text) {
    if (constraint == nullptr) return true;
    Matcher m(constraint->grammar, constraint->vocabulary);
    for (const Token id : mark_tokens.spell(text)) {
      if (!m.accept(id)) return false;
    }
    return m.may_end();
  }
  void ask(const char* path, const std::string& body) {
    constraint = nullptr;
    const HttpResponse r = post(path, body);
    EXPECT_EQ(r.status, 200) << r.body;
  }
  // Which of the four: free text, a call of each tool, one that does not obey.
  std::string taken(const char* path, const std::string& body) {
    ask(path, body);
    std::string out;
    const std::pair<const char*, std::string> all[] = {{"text ", "Hm"},
                                                       {"get ", kGet},
                                                       {"other ", kOther},
                                                       {"loose ", kLoose},
                                                       {"two ", kGet + std::string("\n") + kGet}};
    for (const auto& [name, text] : all)
      if (takes(text)) out += name;
    return out;
  }
  std::string reply;
  MarkTokens mark_tokens;
  std::shared_ptr<const Constraint> constraint;
  bool has_end_rule = false;
};

const char* const kChat = "/v1/chat/completions";
std::string chat(const std::string& more, const std::string& strict = "") {
  return R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"get",)" +
         strict + parameters(true) + R"(}},{"type":"function","function":{"name":"other"}}])" + more + "}";
}

TEST(ToolChoice, ChatIsHeldToWhatItChose) {
  ChoiceServer s;
  EXPECT_EQ(s.taken(kChat, chat("")), "text get other loose two ");
  EXPECT_EQ(s.taken(kChat, chat(R"(,"tool_choice":"auto")")), "text get other loose two ");
  EXPECT_EQ(s.taken(kChat, chat("", R"("strict":true,)")), "text get other two ");
  EXPECT_EQ(s.taken(kChat, chat("", R"("strict":false,)")), "text get other loose two ");
  EXPECT_EQ(s.taken(kChat, chat(R"(,"tool_choice":"required")")), "get other two ");
  EXPECT_EQ(s.taken(kChat, chat(R"(,"tool_choice":"required","parallel_tool_calls":false)")), "get other ");
  EXPECT_EQ(s.taken(kChat, chat(R"(,"tool_choice":{"type":"function","function":{"name":"get"}})")), "get ");
  const auto allowed = [](const char* mode) {
    return std::string(R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":")") + mode +
           R"(","tools":[{"type":"function","function":{"name":"other"}}]}})";
  };
  EXPECT_EQ(s.taken(kChat, chat(allowed("required"))), "other ");
  EXPECT_EQ(s.taken(kChat, chat(allowed("auto"))), "text other ");
  EXPECT_EQ(s.taken(kChat, chat(R"(,"tool_choice":"none")")), "text get other loose two ");
  EXPECT_EQ(s.constraint, nullptr) << "nothing is asked";
  s.ask(kChat, chat(R"(,"tool_choice":"required")"));
  EXPECT_FALSE(s.takes("<tool_call>\n{\"name\": \"other\", \"arguments\": {\"a\": 1}}\n</tool_call>"))
      << "a tool without parameters has none";
}

TEST(ToolChoice, OtherDialectsAreHeldLikewise) {
  ChoiceServer s;
  const auto responses = [](const std::string& more) {
    return R"({"input":"x","tools":[{"type":"function","name":"get",)" + parameters(true) +
           R"(},{"type":"function","name":"other"}])" + more + "}";
  };
  constexpr const char* kResponses = "/v1/responses";
  EXPECT_EQ(s.taken(kResponses, responses("")), "text get other loose two ");
  EXPECT_EQ(s.taken(kResponses, responses(R"(,"tool_choice":"required")")), "get other two ");
  EXPECT_EQ(s.taken(kResponses, responses(R"(,"tool_choice":{"type":"function","name":"other"})")), "other ");
  EXPECT_EQ(
      s.taken(
          kResponses,
          responses(
              R"(,"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"get"}]})")),
      "get two ");
  const auto anthropic = [](const std::string& more, const std::string& strict = "") {
    return R"({"max_tokens":200,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"get",)" + strict +
           parameters(false) + R"(},{"name":"other","input_schema":{"type":"object"}}])" + more + "}";
  };
  constexpr const char* kMessages = "/v1/messages";
  EXPECT_EQ(s.taken(kMessages, anthropic("")), "text get other loose two ");
  EXPECT_EQ(s.taken(kMessages, anthropic("", R"("strict":true,)")), "text get other two ");
  EXPECT_EQ(s.taken(kMessages, anthropic(R"(,"tool_choice":{"type":"any"})")), "get other two ");
  EXPECT_EQ(s.taken(kMessages, anthropic(R"(,"tool_choice":{"type":"any","disable_parallel_tool_use":true})")),
            "get other ");
  EXPECT_EQ(s.taken(kMessages, anthropic(R"(,"tool_choice":{"type":"tool","name":"get"})")), "get two ");
}

TEST(ToolChoice, AnAnswerIsCallsOrTheDocument) {
  ChoiceServer s;
  const std::pair<const char*, const char*> formats[] = {
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"integer"}}})", "12"},
      {R"("response_format":{"type":"json_object"})", "{\"a\": []}"},
      {R"("regex":"[a-c]+")", "abc"},
      {R"("guided_choice":["yes","no"])", "no"},
      {R"("ebnf":"root ::= 'x'")", "x"},
      {R"("grammar":"root ::= \"x\"")", "x"},
      {R"("structural_tag":{"format":{"type":"const_string","value":"v"}})", "v"},
  };
  for (const auto& [format, document] : formats) {
    EXPECT_EQ(s.taken(kChat, chat("," + std::string(format))), "get other loose two ") << format;
    EXPECT_TRUE(s.takes(document)) << format;
    EXPECT_EQ(s.taken(kChat, chat(R"(,"tool_choice":"required",)" + std::string(format))), "get other two ") << format;
    EXPECT_FALSE(s.takes(document)) << format;
  }
}

TEST(ToolChoice, ConstraintsBeginBehindTheReasoning) {
  ChoiceServer s;
  const std::string thought = "<think>I <tool_call> know.</think>\n";
  const auto think = [](const char* on) {
    return chat(std::string(R"(,"tool_choice":"required","chat_template_kwargs":{"enable_thinking":)") + on + "}");
  };
  s.ask(kChat, think("true"));
  EXPECT_TRUE(s.takes(thought + kGet));
  EXPECT_TRUE(s.takes(kGet));
  EXPECT_FALSE(s.takes(thought + "Hm"));
  s.ask(kChat, think("false"));
  EXPECT_TRUE(s.takes(kGet)) << "the prompt closed it";
  EXPECT_FALSE(s.takes(thought + kGet));
  s.ask(kChat, chat(""));
  EXPECT_TRUE(s.takes(thought + "Hm"));
  EXPECT_TRUE(s.takes(thought + kGet));
}

TEST(ToolChoice, StopStringsActWhereTextIsFree) {
  ChoiceServer s;
  s.ask(kChat, chat(R"(,"stop":["Hm"])"));
  EXPECT_TRUE(s.has_end_rule);
  const HttpResponse r = s.post(kChat, chat(R"(,"stop":["Hm"],"tool_choice":"required")"));
  ASSERT_NE(r.header("x-quire-warning"), nullptr);
  EXPECT_NE(r.header("x-quire-warning")->find("stop has no effect beside tools"), std::string::npos);
}

TEST(ToolChoice, ParametersThatCannotBeKeptAreRefusedByTheirPlace) {
  ChoiceServer s;
  const auto with = [](const std::string& schema, const std::string& more) {
    return R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"a"}},
      {"type":"function","function":{"name":"b","parameters":)" +
           schema + "}}]" + more + "}";
  };
  const std::string required = R"(,"tool_choice":"required")";
  const std::string odd = R"({"type":"object","properties":{"s":{"type":"string","pattern":"(a)\\1"}}})";
  struct Case {
    std::string body;
    const char* field;
    const char* words;
  };
  const Case cases[] = {
      {with(odd, required), "tools[1].function.parameters", "#/properties/s"},
      {with(R"({"type":"array"})", required), "tools[1].function.parameters.type", "object"},
      {with(R"({"type":"object","properties":{"a":{"$ref":"http://x/y"}}})", required), "tools[1].function.parameters",
       "$ref"},
      {with("{}", R"(,"response_format":{"type":"json_schema","json_schema":{"schema":{"pattern":"("}}})"),
       "response_format.json_schema.schema", "#"},
      {with("{}", R"(,"guided_grammar":"start: x")"), "guided_grammar", "cannot be kept"},
  };
  for (const Case& one : cases) {
    const HttpResponse r = s.post(kChat, one.body);
    EXPECT_EQ(r.status, 400) << one.body;
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), one.field) << r.body;
    EXPECT_NE(text_at(json_at(parse_json(r.body), "error", "message")).find(one.words), std::string::npos) << r.body;
  }
  s.ask(kChat, with(odd, ""));  // of an answer that need not obey
  s.ask(kChat, with("{}", R"(,"guided_grammar":"start: \"x\"")"));
  s.ask(kChat, with(R"({"$ref":"#/$defs/p","$defs":{"p":{"properties":{"a":{"const":1}}}}})", required));
  EXPECT_TRUE(s.takes("<tool_call>\n{\"name\": \"b\", \"arguments\": {\"a\": 1}}\n</tool_call>"));
  EXPECT_FALSE(s.takes("<tool_call>\n{\"name\": \"b\", \"arguments\": {\"a\": 2}}\n</tool_call>"));
  EXPECT_FALSE(s.takes("<tool_call>\n{\"name\": \"b\", \"arguments\": 7}\n</tool_call>"));
}

constexpr const char* kMarked =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n<function={{ c.function.name }}>\n"
    "{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}"
    "</function>\n</tool_call>{% endfor %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

TEST(ToolChoice, ValuesBetweenMarksAreOfTheirParametersKind) {
  const auto call = [](const std::string& zip, const std::string& n) {
    return "<tool_call>\n<function=find>\n<parameter=zip>\n" + zip + "\n</parameter>\n<parameter=n>\n" + n +
           "\n</parameter>\n</function>\n</tool_call>";
  };
  const auto ask = [](const std::string& schema, const std::string& more) {
    return R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"find","parameters":)" +
           schema + "}}]" + more + "}";
  };
  const std::string required = R"(,"tool_choice":"required")";
  const std::string schema =
      R"({"type":"object","properties":{"zip":{"type":"string","maxLength":5},"n":{"$ref":"#/$defs/n"}},"required":["zip"],
        "$defs":{"n":{"type":"integer","maximum":9}}})";
  ChoiceServer s(kMarked, call("02134", "07"));
  const HttpResponse r = s.post(kChat, ask(schema, ""));
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "choices", 0, "message", "tool_calls", 0, "function", "arguments")),
            R"({"zip": "02134", "n": "07"})");
  EXPECT_TRUE(s.takes("Hm " + call("12", "ten")));
  s.ask(kChat, ask(schema, required));
  EXPECT_TRUE(s.takes(call("02134", "7")));
  EXPECT_TRUE(s.takes("<tool_call>\n<function=find>\n<parameter=zip>\n\n</parameter>\n</function>\n</tool_call>"));
  EXPECT_FALSE(s.takes(call("021345", "7")));
  EXPECT_FALSE(s.takes(call("02134", "12")));
  EXPECT_FALSE(s.takes("Hm " + call("02134", "7")));
  for (const auto& [bad, words] :
       {std::pair{R"({"properties":{"a":{"type":"string","pattern":"x"}}})", "#/properties/a: \"pattern\""},
        {R"({"properties":{"a":{"type":["string","integer"],"minimum":1}}})", "\"minimum\""},
        {R"({"minProperties":1})", "#: \"minProperties\""},
        {R"({"required":["b"]})", "#/required: \"b\""},
        {R"({"properties":{"a":{"enum":["1",1]}}})", "\"enum\""}}) {
    const HttpResponse refused = s.post(kChat, ask(bad, required));
    EXPECT_EQ(refused.status, 400) << bad;
    EXPECT_EQ(text_at(json_at(parse_json(refused.body), "error", "param")), "tools[0].function.parameters");
    EXPECT_NE(text_at(json_at(parse_json(refused.body), "error", "message")).find(words), std::string::npos)
        << refused.body;
    EXPECT_EQ(s.post(kChat, ask(bad, "")).status, 200) << bad;
  }
}

// As gpt-oss: thoughts, calls and answers are messages of channels, and their marks are control tokens.
TEST(ToolChoice, MessagesToFunctionsAreCalls) {
  constexpr const char* kChannels =
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|start|>{{ m.role }}"
      "{% for c in m.tool_calls %} to=functions.{{ c.function.name }}<|channel|>commentary json<|message|>"
      "{{ c.function.arguments | tojson }}<|call|>{% endfor %}<|message|>{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|start|>assistant{% endif %}";
  const std::string thought = "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant";
  const std::string call = "<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"city\": \"Oslo\"}";
  const std::string said = "<|channel|>final<|message|>Hm";
  ChoiceServer s(kChannels, thought + call,
                 {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>", "<|call|>"});
  const HttpResponse r = s.post(kChat, chat(""));
  const Json choice = json_at(parse_json(r.body), "choices", 0);
  EXPECT_EQ(text_at(json_at(choice, "message", "tool_calls", 0, "function", "arguments")), "{\"city\": \"Oslo\"}")
      << r.body;
  EXPECT_EQ(text_at(json_at(choice, "finish_reason")), "tool_calls");
  EXPECT_EQ(text_at(json_at(choice, "message", "reasoning_content")), "Let me see.");
  s.ask(kChat, chat(""));
  EXPECT_TRUE(s.takes(thought + call));
  EXPECT_TRUE(s.takes(thought + said));
  s.ask(kChat, chat(R"(,"tool_choice":"required")"));
  EXPECT_TRUE(s.takes(thought + call));
  EXPECT_TRUE(s.takes(call));
  EXPECT_FALSE(s.takes(thought + said));
  EXPECT_FALSE(s.takes("<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"town\": 1}"));
  // An answer that is begun is in a channel already, and the grammar of calls begins before one.
  const HttpResponse begun = s.post(kChat, R"({"tools":[{"type":"function","function":{"name":"get"}}],"messages":[
      {"role":"user","content":"x"},{"role":"assistant","content":"Hm"}]})");
  EXPECT_EQ(begun.status, 400) << begun.body;
  EXPECT_EQ(text_at(json_at(parse_json(begun.body), "error", "param")), "messages[1]");
}

// As Kimi K3: thoughts, text and calls are sections, and every mark is several control tokens.
TEST(ToolChoice, SectionsHoldThoughtsTextAndCalls) {
  constexpr const char* kSections =
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|open|>message<|sep|>"
      "{% if m.role == 'assistant' %}<|open|>response<|sep|>{% endif %}{{ m.content }}{% if m.tool_calls %}"
      "<|close|>response<|sep|><|open|>tools<|sep|>{% for c in m.tool_calls %}<|open|>call tool=\"{{ c.function.name "
      "}}\" "
      "index=\"{{ loop.index }}\"<|sep|>{% for k, v in c.function.arguments.items() %}<|open|>argument key=\"{{ k }}\" "
      "type=\"{{ 'string' if v is string else 'number' }}\"<|sep|>{{ v }}<|close|>argument<|sep|>{% endfor %}"
      "<|close|>call<|sep|>{% endfor %}<|close|>tools<|sep|>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<|open|>think<|sep|>{% endif %}";
  const std::string thought = "Let me see.<|close|>think<|sep|>", begin = thought + "<|open|>response<|sep|>";
  const std::string call =
      "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"get\" index=\"1\"<|sep|><|open|>argument "
      "key=\"city\" type=\"string\"<|sep|>Oslo<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>";
  const std::string end = "<|close|>message<|sep|>";
  ChoiceServer s(kSections, begin + "On it." + call + end, {"<|open|>", "<|close|>", "<|sep|>"});
  const HttpResponse r = s.post(kChat, chat(""));
  const Json choice = json_at(parse_json(r.body), "choices", 0);
  EXPECT_EQ(text_at(json_at(choice, "message", "tool_calls", 0, "function", "arguments")), "{\"city\": \"Oslo\"}")
      << r.body;
  EXPECT_EQ(text_at(json_at(choice, "finish_reason")), "tool_calls");
  EXPECT_EQ(text_at(json_at(choice, "message", "content")), "On it.");
  EXPECT_EQ(text_at(json_at(choice, "message", "reasoning_content")), "Let me see.");
  s.ask(kChat, chat(""));
  for (const std::string& text :
       {begin + "On it." + call + end, begin + call, begin + "Hm<|close|>response<|sep|>" + end})
    EXPECT_TRUE(s.takes(text)) << text;
  EXPECT_FALSE(s.takes("On it." + call)) << "the prompt has opened the thoughts";
  s.ask(kChat, chat(R"(,"tool_choice":"required")"));
  EXPECT_TRUE(s.takes(begin + call + end));
  EXPECT_FALSE(s.takes(begin + "On it." + call));
  const auto content = [&](const std::string& body) {
    return text_at(json_at(parse_json(s.post(kChat, body).body), "choices", 0, "message", "content"));
  };
  const std::string asked = R"({"messages":[{"role":"user","content":"x"})";
  EXPECT_EQ(content(asked + R"(],"separate_reasoning":false})"), s.reply) << "as the model wrote it";
  s.reply = "lo<|close|>response<|sep|>" + end;
  EXPECT_EQ(content(asked + R"(,{"role":"assistant","content":"Hel"}]})"), "lo") << "an answer that is begun";
  const HttpResponse budget = s.post(kChat, chat(R"(,"thinking_token_budget":8)"));
  EXPECT_EQ(budget.status, 400) << budget.body;
  const HttpResponse warned = s.post(
      "/v1/messages",
      R"({"max_tokens":4,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(warned.status, 200) << warned.body;
  ASSERT_NE(warned.header("x-quire-warning"), nullptr);
  EXPECT_NE(warned.header("x-quire-warning")->find("thinking.budget_tokens has no effect"), std::string::npos);
  EXPECT_EQ(text_at(json_at(parse_json(budget.body), "error", "param")), "thinking_token_budget");
}

}  // namespace
}  // namespace quire
