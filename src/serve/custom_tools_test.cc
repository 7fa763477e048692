// Custom tools: a call's input is the text that was asked for, whole and streamed, however it was cut; it returns to
// the model as it came, and what it has to obey holds.
#include "serve/custom_tools.h"

#include <algorithm>

#include "sample/constraint.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kTemplate =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

std::string call_of(const std::string& input) {
  return "<tool_call>\n{\"name\": \"run\", \"arguments\": {\"input\": \"" + input + "\"}}\n</tool_call>";
}

struct CustomServer : TestServer {
  CustomServer() {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = kTemplate;
    tokenizer = tiny_tokenizer(spec);
    engine.script = [this](const Request& r) {
      constraint = r.sampling.constraint;
      prompt.clear();
      for (const Token id : r.prompt) tokenizer->append_bytes(id, true, prompt);
      return byte_tokens(reply);
    };
    start();
  }
  bool takes(std::string_view text) const {
    Matcher m(constraint->grammar, constraint->vocabulary);
    for (const Token id : byte_tokens(text))
      if (!m.accept(id)) return false;
    return m.may_end();
  }
  std::string reply = call_of("a \\\"b\\\"\\n\\ud83d\\ude00\\\\ \xC3\xA9");
  std::string prompt;
  std::shared_ptr<const Constraint> constraint;
};
const std::string kInput = "a \"b\"\n\xF0\x9F\x98\x80\\ \xC3\xA9";

const char* const kResponses = "/v1/responses";
const char* const kChat = "/v1/chat/completions";
std::string flat(const std::string& input, const std::string& more, const std::string& format = "") {
  return R"({"input":)" + input + R"(,"tools":[{"type":"custom","name":"run","description":"d")" + format + "}]" +
         more + "}";
}
std::string nested(const std::string& messages, const std::string& more, const std::string& format = "") {
  return R"({"messages":[{"role":"user","content":"x"})" + messages +
         R"(],"tools":[{"type":"custom","custom":{"name":"run","description":"d")" + format + "}}]" + more + "}";
}

TEST(CustomTools, ResponsesHaveItemsOfInputs) {
  CustomServer s;
  const HttpResponse r = s.post(kResponses, flat("\"x\"", ""));
  ASSERT_EQ(r.status, 200) << r.body;
  const Json j = parse_json(r.body), call = json_at(j, "output", 0);
  EXPECT_EQ(text_at(json_at(call, "type")), "custom_tool_call");
  EXPECT_EQ(text_at(json_at(call, "name")), "run");
  EXPECT_EQ(text_at(json_at(call, "status")), "completed");
  EXPECT_EQ(text_at(json_at(call, "input")), kInput);
  EXPECT_EQ(text_at(json_at(call, "id")).substr(0, 4), "ctc_");
  EXPECT_EQ(
      s.prompt.substr(0, s.prompt.find("[user]")),
      R"(<s>[{"type": "function", "function": {"name": "run", "description": "d", "parameters": {"type": "object", )"
      R"("properties": {"input": {"type": "string"}}, "required": ["input"]}}}])");

  const std::string output =
      R"({"type":"custom_tool_call_output","call_id":")" + text_at(json_at(call, "call_id")) + R"(","output":"21"})";
  const std::string body = flat("[" + output + "]", R"(,"previous_response_id":")" + text_at(json_at(j, "id")) + "\"");
  ASSERT_EQ(s.post(kResponses, body).status, 200);
  const std::string kept = s.prompt.substr(s.prompt.find("[user]"));
  EXPECT_EQ(kept, "[user]x[assistant]" + s.reply + "[tool]21[assistant]") << "byte for byte";
  const HttpResponse sent =
      s.post(kResponses, flat(R"([{"role":"user","content":"x"},)" + call.dump() + "," + output + "]", ""));
  ASSERT_EQ(sent.status, 200) << sent.body;
  EXPECT_EQ(s.prompt.substr(s.prompt.find("[user]")),
            "[user]x[assistant]" + call_of("a \\\"b\\\"\\n\xF0\x9F\x98\x80\\\\ \xC3\xA9") + "[tool]21[assistant]");
  const Json items = json_at(
      parse_json(s.get(kResponses + ("/" + text_at(json_at(parse_json(sent.body), "id"))) + "/input_items").body),
      "data");
  EXPECT_EQ(text_at(json_at(items, 1, "type")), "custom_tool_call");
  EXPECT_EQ(text_at(json_at(items, 1, "input")), kInput);
  EXPECT_EQ(text_at(json_at(items, 2, "type")), "custom_tool_call_output");
}

TEST(CustomTools, ResponsesStreamEventsOfInputs) {
  CustomServer s;
  const auto e = s.stream(kResponses, flat("\"x\"", R"(,"stream":true)"));
  std::string input, done, added;
  Json output;
  for (const SseEvent& event : e.list) {
    const Json j = parse_json(event.data);
    const std::string type = text_at(json_at(j, "type"));
    EXPECT_EQ(type.find("function_call"), std::string::npos) << type;
    if (type == "response.output_item.added") added = text_at(json_at(j, "item", "type"));
    if (type == "response.custom_tool_call_input.delta") input += text_at(json_at(j, "delta"));
    if (type == "response.custom_tool_call_input.done") done = text_at(json_at(j, "input"));
    if (type == "response.completed") output = json_at(j, "response", "output");
  }
  EXPECT_EQ(added, "custom_tool_call");
  EXPECT_EQ(input, kInput);
  EXPECT_EQ(done, kInput);
  EXPECT_EQ(text_at(json_at(output, 0, "input")), kInput);
}

TEST(CustomTools, ChatHasCallsOfInputs) {
  CustomServer s;
  const HttpResponse r = s.post(kChat, nested("", ""));
  ASSERT_EQ(r.status, 200) << r.body;
  const Json message = json_at(parse_json(r.body), "choices", 0, "message"), call = json_at(message, "tool_calls", 0);
  EXPECT_EQ(text_at(json_at(call, "type")), "custom");
  EXPECT_EQ(text_at(json_at(call, "custom", "name")), "run");
  EXPECT_EQ(text_at(json_at(call, "custom", "input")), kInput);
  EXPECT_EQ(text_at(json_at(parse_json(r.body), "choices", 0, "finish_reason")), "tool_calls");

  const auto e = s.stream(kChat, nested("", R"(,"stream":true,"n":2)"));
  for (const int64_t index : {0, 1}) {
    std::string name, input;
    for (const SseEvent& event : e.list) {
      if (event.data == "[DONE]") continue;
      const Json choice = json_at(parse_json(event.data), "choices", 0);
      if (int_at(json_at(choice, "index")) != index) continue;
      for (const Json& piece : list_of(json_at(choice, "delta", "tool_calls"))) {
        if (piece.find("type") != nullptr) name += text_at(json_at(piece, "custom", "name"));
        input += text_at(json_at(piece, "custom", "input"));
      }
    }
    EXPECT_EQ(name, "run");
    EXPECT_EQ(input, kInput);
  }

  const std::string result = R"(,{"role":"tool","tool_call_id":"1","content":"21"})";
  ASSERT_EQ(s.post(kChat, nested("," + message.dump() + result, "")).status, 200);
  EXPECT_EQ(s.prompt.substr(s.prompt.find("[user]")),
            "[user]x[assistant]" + call_of("a \\\"b\\\"\\n\xF0\x9F\x98\x80\\\\ \xC3\xA9") + "[tool]21[assistant]");
}

// The input is held to its format even where no call has to come.
TEST(CustomTools, InputsObeyTheirFormat) {
  CustomServer s;
  const std::string other = "<tool_call>\n{\"name\": \"run\", \"arguments\": {\"text\": \"a\"}}\n</tool_call>";
  const auto ask = [&](const char* path, const std::string& body) {
    s.constraint = nullptr;
    const HttpResponse r = s.post(path, body);
    ASSERT_EQ(r.status, 200) << r.body;
    ASSERT_NE(s.constraint, nullptr);
    EXPECT_FALSE(s.takes(other));
  };
  ask(kResponses, flat("\"x\"", "", R"(,"format":{"type":"text"})"));
  EXPECT_TRUE(s.takes("Hm")) << "no call has to come";
  EXPECT_TRUE(s.takes(call_of("any\\n\\\"text\\\"")));
  EXPECT_TRUE(s.takes(call_of("")));
  const char* regex = R"(,"format":{"type":"grammar","syntax":"regex","definition":"\"[a-c]+\""})";
  ask(kResponses, flat("\"x\"", R"(,"tool_choice":{"type":"custom","name":"run"})", regex));
  EXPECT_FALSE(s.takes("Hm"));
  EXPECT_TRUE(s.takes(call_of("\\\"abc\\\"")));
  EXPECT_FALSE(s.takes(call_of("abc")));
  EXPECT_NE(s.prompt.find(R"(\"[a-c]+\")"), std::string::npos) << "the model is told: " << s.prompt;
  const char* lark =
      R"(,"format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"(\" (start | N)* \")\"\nN: /[0-9]+|\"/\n%ignore \" \""}})";
  ask(kChat, nested("", R"(,"tool_choice":{"type":"custom","custom":{"name":"run"}})", lark));
  EXPECT_TRUE(s.takes(call_of("(12 (\\\") ())")));
  EXPECT_FALSE(s.takes(call_of("(12 (\\\") ()")));
  EXPECT_FALSE(s.takes(call_of("(\")")));
  ask(kChat, nested("",
                    R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[)"
                    R"({"type":"custom","custom":{"name":"run"}}]}})",
                    lark));
  EXPECT_TRUE(s.takes(call_of("()")));
  EXPECT_FALSE(s.takes("Hm"));
}

struct Refused {
  const char* path;
  std::string body;
  const char* field;
};

TEST(CustomTools, WhatCannotBeKeptIsRefusedByItsPath) {
  CustomServer s;
  const auto format = [](const std::string& inner) { return flat("\"x\"", "", ",\"format\":{" + inner + "}"); };
  const auto function = R"({"input":"x","tools":[{"type":"function","name":"run"}],)";
  const Refused cases[] = {
      {kResponses, R"({"input":"x","tools":[{"type":"custom"}]})", "tools[0].name"},
      {kChat, R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"custom","name":"run"}]})",
       "tools[0].custom"},
      {kResponses, format(R"("type":"yaml")"), "tools[0].format.type"},
      {kResponses, format(R"("type":"grammar","definition":"a")"), "tools[0].format.syntax"},
      {kResponses, format(R"("type":"grammar","syntax":"regex")"), "tools[0].format.definition"},
      {kResponses, format(R"("type":"grammar","syntax":"gbnf","definition":"a")"), "tools[0].format.syntax"},
      {kResponses, format(R"("type":"grammar","syntax":"regex","definition":"(a")"), "tools[0].format.definition"},
      {kResponses, format(R"("type":"grammar","syntax":"lark","definition":"a: \"b\"")"), "tools[0].format.definition"},
      {kResponses, format(R"("type":"grammar","syntax":"lark","definition":"start: <[3]>")"),
       "tools[0].format.definition"},
      {kChat, nested("", "", R"(,"format":{"type":"grammar","syntax":"regex","definition":"a"})"),
       "tools[0].custom.format.grammar"},
      {kChat, nested("", "", R"(,"format":{"type":"grammar","grammar":{"syntax":"regex","definition":"(a"}})"),
       "tools[0].custom.format.grammar.definition"},
      {kResponses, flat("\"x\"", R"(,"tool_choice":{"type":"function","name":"run"})"), "tool_choice.type"},
      {kResponses, function + std::string(R"("tool_choice":{"type":"custom","name":"run"}})"), "tool_choice.type"},
      {kResponses, flat(R"([{"type":"custom_tool_call","call_id":"1","name":"run"}])", ""), "input[0].input"},
      {kResponses, flat(R"([{"type":"custom_tool_call_output","call_id":"1"}])", ""), "input[0].output"},
      {kChat, nested(R"(,{"role":"assistant","tool_calls":[{"id":"1","type":"custom","custom":{"name":"run"}}]})", ""),
       "messages[1].tool_calls[0].custom.input"},
  };
  for (const Refused& one : cases) {
    const HttpResponse r = s.post(one.path, one.body);
    EXPECT_EQ(r.status, 400) << one.body;
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), one.field) << r.body;
  }
}

// In two pieces cut anywhere, and cut off anywhere: what is told is the input, or a beginning of it in whole
// characters.
TEST(CustomTools, AnInputIsReadHoweverItIsCut) {
  const std::string arguments = "{\"input\": \"a\\\"\\u00e9\\ud83d\\ude00\xC3\xA9\\\\\"}";
  const std::string_view whole = input_in(arguments);
  EXPECT_EQ(whole, "a\\\"\\u00e9\\ud83d\\ude00\xC3\xA9\\\\");
  for (size_t cut = 0; cut <= arguments.size(); ++cut) {
    CustomInputReader reader;
    const std::string first = reader.push(std::string_view(arguments).substr(0, cut));
    EXPECT_EQ(first, input_in(std::string_view(arguments).substr(0, cut))) << cut;
    EXPECT_TRUE(Json::parse("\"" + first + "\"")) << cut;
    EXPECT_EQ(first + reader.push(std::string_view(arguments).substr(cut)), whole) << cut;
  }
  EXPECT_EQ(input_arguments("a\"\n"), "{\"input\": \"a\\\"\\n\"}");
  EXPECT_EQ(input_in("{\"inp"), "");
  EXPECT_EQ(input_in("{\"a\": \"\\ud83d\", \"b\": \"c\"}"), "\\ud83d") << "half a character does not hide the end";
}

}  // namespace
}  // namespace quire
