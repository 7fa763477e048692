// Models whose answers are messages or sections, over HTTP: thoughts, text, calls and documents come in every dialect,
// streamed and whole, as the model wrote them; what a document's strings spell is text.
#include <algorithm>

#include "sample/constraint.h"
#include "serve/marks_testing.h"

namespace quire {
namespace {

std::string string_of(const Json& value) { return value.as_string() != nullptr ? *value.as_string() : ""; }

// What an answer says, in any dialect. Calls as NAME(ARGUMENTS), blanks aside, which some dialects write anew.
struct Said {
  std::string reasoning, text, calls;
  Said without_blanks() && {
    std::erase(calls, ' ');
    return std::move(*this);
  }
  bool operator==(const Said&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Said& s) {
    return out << "[" << s.reasoning << "] [" << s.text << "] [" << s.calls << "]";
  }
};

std::string call_text(const std::string& name, const std::string& arguments) { return name + "(" + arguments + ")"; }

struct Dialect {
  const char* name;
  const char* path;
  std::string begin;     // a JSON object without its last brace
  std::string tools;     // a member
  std::string document;  // a member that wants any JSON object
  Said (*whole)(const Json&);
  void (*add)(const Json& event, Said& said);
};

constexpr const char* kParameters = R"({"type":"object","properties":{"city":{"type":"string"}}})";

Said whole_chat(const Json& j) {
  const Json m = json_at(j, "choices", 0, "message");
  Said out{string_of(json_at(m, "reasoning_content")), string_of(json_at(m, "content")), ""};
  for (const Json& call : list_of(json_at(m, "tool_calls")))
    out.calls +=
        call_text(string_of(json_at(call, "function", "name")), string_of(json_at(call, "function", "arguments")));
  return out;
}

void add_chat_event(const Json& e, Said& said) {
  const Json delta = json_at(e, "choices", 0, "delta");
  said.text += string_of(json_at(delta, "content"));
  said.reasoning += string_of(json_at(delta, "reasoning_content"));
  for (const Json& call : list_of(json_at(delta, "tool_calls"))) {
    const std::string name = string_of(json_at(call, "function", "name"));
    if (!name.empty()) said.calls += (said.calls.empty() ? "" : ")") + name + "(";
    said.calls += string_of(json_at(call, "function", "arguments"));
  }
  if (string_of(json_at(e, "choices", 0, "finish_reason")) == "tool_calls") said.calls += ")";
}

Said whole_response(const Json& j) {
  Said out;
  for (const Json& item : list_of(json_at(j, "output"))) {
    const std::string type = string_of(json_at(item, "type"));
    if (type == "function_call")
      out.calls += call_text(string_of(json_at(item, "name")), string_of(json_at(item, "arguments")));
    else
      (type == "message" ? out.text : out.reasoning) += string_of(json_at(item, "content", 0, "text"));
  }
  return out;
}

void add_response_event(const Json& e, Said& said) {
  const std::string type = string_of(json_at(e, "type"));
  if (type == "response.output_text.delta") said.text += string_of(json_at(e, "delta"));
  if (type == "response.reasoning_text.delta") said.reasoning += string_of(json_at(e, "delta"));
  if (type == "response.output_item.added" && string_of(json_at(e, "item", "type")) == "function_call")
    said.calls += string_of(json_at(e, "item", "name")) + "(";
  if (type == "response.function_call_arguments.delta") said.calls += string_of(json_at(e, "delta"));
  if (type == "response.function_call_arguments.done") said.calls += ")";
}

Said whole_message(const Json& j) {
  Said out;
  for (const Json& block : list_of(json_at(j, "content"))) {
    out.text += string_of(json_at(block, "text"));
    out.reasoning += string_of(json_at(block, "thinking"));
    if (string_of(json_at(block, "type")) == "tool_use")
      out.calls += call_text(string_of(json_at(block, "name")), json_at(block, "input").dump());
  }
  return out;
}

void add_message_event(const Json& e, Said& said) {
  said.text += string_of(json_at(e, "delta", "text"));
  said.reasoning += string_of(json_at(e, "delta", "thinking"));
  const bool call = string_of(json_at(e, "content_block", "type")) == "tool_use";
  if (call) said.calls += string_of(json_at(e, "content_block", "name")) + "(";
  said.calls += string_of(json_at(e, "delta", "partial_json"));
  if (string_of(json_at(e, "type")) == "content_block_stop" &&
      std::ranges::count(said.calls, '(') > std::ranges::count(said.calls, ')'))
    said.calls += ")";
}

Said ollama(const Json& j) {
  const Json m = json_at(j, "message");
  Said out{string_of(json_at(m, "thinking")), string_of(json_at(m, "content")), ""};
  for (const Json& call : list_of(json_at(m, "tool_calls")))
    out.calls += call_text(string_of(json_at(call, "function", "name")), json_at(call, "function", "arguments").dump());
  return out;
}

void add_ollama_line(const Json& j, Said& said) {
  const Said more = ollama(j);
  said.reasoning += more.reasoning;
  said.text += more.text;
  said.calls += more.calls;
}

const std::vector<Dialect>& dialects() {
  const std::string function = R"({"name":"get","parameters":)" + std::string(kParameters) + "}",
                    nested = R"("tools":[{"type":"function","function":)" + function + "}]",
                    messages = R"("messages":[{"role":"user","content":"x"}])";
  static const std::vector<Dialect> kAll = {
      {"chat", "/v1/chat/completions", "{" + messages, nested, R"("response_format":{"type":"json_object"})",
       whole_chat, add_chat_event},
      {"responses", "/v1/responses", R"({"input":"x")",
       R"("tools":[{"type":"function","name":"get","parameters":)" + std::string(kParameters) + "}]",
       R"("text":{"format":{"type":"json_object"}})", whole_response, add_response_event},
      {"messages", "/v1/messages", "{" + messages + R"(,"max_tokens":400)",
       R"("tools":[{"name":"get","input_schema":)" + std::string(kParameters) + "}]",
       R"("output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})", whole_message,
       add_message_event},
      {"ollama", "/api/chat", "{" + messages, nested, R"("format":"json")", ollama, add_ollama_line},
  };
  return kAll;
}

// A model with a template, whose marks are control tokens.
struct MarkedServer : TestServer {
  MarkedServer(const std::string& source, const std::vector<std::string>& marks) {
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = source;
    mark_tokens.add(marks, spec);
    tokenizer = tiny_tokenizer(std::move(spec));
    engine.tokens_per_step = 3;
    engine.script = [this](const Request& r) {
      const std::shared_ptr<const Constraint> held = r.sampling.constraint;
      if (held == nullptr) return reply;
      Matcher m(held->grammar, held->vocabulary);
      obeys = std::ranges::all_of(reply, [&](Token id) { return m.accept(id).has_value(); }) && m.may_end();
      return reply;
    };
    start();
  }
  // Answers with `before`, with `document` spelled in bytes, and with `behind`.
  void answer(const std::string& before, const std::string& document = "", const std::string& behind = "") {
    reply = mark_tokens.spell(before);
    for (const Token id : byte_tokens(document)) reply.push_back(id);
    for (const Token id : mark_tokens.spell(behind)) reply.push_back(id);
  }
  void expect(const std::string& what, const Said& wanted, const std::string& (*member)(const Dialect&)) {
    for (const Dialect& d : dialects()) {
      const std::string body = d.begin + "," + member(d);
      obeys = false;
      const HttpResponse whole = post(d.path, body + R"(,"stream":false})");
      ASSERT_EQ(whole.status, 200) << what << " " << d.name << ": " << whole.body;
      EXPECT_TRUE(obeys) << what << " " << d.name;
      EXPECT_EQ(d.whole(parse_json(whole.body)).without_blanks(), wanted)
          << what << " " << d.name << ": " << whole.body;
      EXPECT_EQ(streamed(d, body + R"(,"stream":true})").without_blanks(), wanted) << what << " " << d.name;
    }
  }
  Said streamed(const Dialect& d, const std::string& body) const {
    Said out;
    const HttpResponse r = post(d.path, body);
    if (!r.body.starts_with("{")) {
      SseReader().feed(r.body, [&](SseEvent&& e) {
        if (e.data != "[DONE]") d.add(parse_json(e.data), out);
      });
      return out;
    }
    for (size_t at = 0, end = 0; (end = r.body.find('\n', at)) != std::string::npos; at = end + 1)
      d.add(parse_json(std::string_view(r.body).substr(at, end - at)), out);
    return out;
  }
  MarkTokens mark_tokens;
  std::vector<Token> reply;
  bool obeys = false;
};

const std::string& with_tools(const Dialect& d) { return d.tools; }
const std::string& with_document(const Dialect& d) { return d.document; }
const std::string& with_both(const Dialect& d) {
  static thread_local std::string both;
  return both = d.tools + "," + d.document;
}

constexpr const char* kMuse =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|start|>{{ m.role }}"
    "{# to=self<|message|> #}{% if m.tool_calls %}{% for c in m.tool_calls %} to={{ c.function.name }}<|message|>"
    "<atem:function_calls>\n<atem:invoke name=\"{{ c.function.name }}\">\n{% for k, v in c.function.arguments.items() "
    "%}"
    "<atem:parameter name=\"{{ k }}\">{{ v }}</atem:parameter>\n{% endfor %}</atem:invoke>\n</atem:function_calls>"
    "{% endfor %}{% else %}<|message|>{{ m.content }}{% endif %}<|eom|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}";
const std::vector<std::string> kMuseMarks{"<|start|>", "<|message|>", "<|eom|>", "<|eot|>"};
const std::string kMuseThought = " to=self<|message|>Let me see.<|eom|><|start|>assistant";
const std::string kMuseCall =
    " to=get<|message|><atem:function_calls>\n<atem:invoke name=\"get\">\n<atem:parameter name=\"city\">Oslo"
    "</atem:parameter>\n</atem:invoke>\n</atem:function_calls>";
// JSON whose strings spell what its model writes around messages, responses and calls.
const std::string kDocument =
    R"({"a":"<|eom|><|start|>assistant to=self<|message|>x","b":["<|end|><|start|>assistant<|channel|>analysis<|message|>",)"
    R"("<|close|>response<|sep|><|close|>message<|sep|>","<|END_RESPONSE|>"," to=get<|message|><atem:function_calls>"],)"
    R"("c":"<|open|>tools<|sep|><|open|>call tool=\"<|START_ACTION|>"})";

TEST(MessageMarks, MusesMessagesAreThoughtsTextAndCalls) {
  MarkedServer s(kMuse, kMuseMarks);
  const std::string next = "<|eom|><|start|>assistant";
  s.answer(kMuseThought + " to=user<|message|>On it." + next + kMuseCall + next + kMuseCall);
  const std::string call = R"(get({"city":"Oslo"}))";
  s.expect("calls", {"Let me see.", "On it.", call + call}, with_tools);
  s.answer(kMuseThought + " to=user<|message|>Hm.");
  s.expect("text", {"Let me see.", "Hm.", ""}, with_tools);
  s.answer(kMuseThought + kMuseCall);
  s.expect("a call or a document", {"Let me see.", "", call}, with_both);
  for (const auto& member : {with_document, with_both}) {
    s.answer(kMuseThought + " to=user<|message|>", kDocument);
    s.expect("document", {"Let me see.", kDocument, ""}, member);
  }
}

// gpt-oss.
TEST(MessageMarks, ChannelsHoldADocument) {
  constexpr const char* kChannels =
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|start|>{{ m.role }}"
      "{% for c in m.tool_calls %} to=functions.{{ c.function.name }}<|channel|>commentary json<|message|>"
      "{{ c.function.arguments | tojson }}<|call|>{% endfor %}<|message|>{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|start|>assistant{% endif %}";
  MarkedServer s(kChannels, {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>", "<|call|>"});
  const std::string thought = "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant";
  for (const auto& member : {with_document, with_both}) {
    s.answer(thought + "<|channel|>final<|message|>", kDocument);
    s.expect("document", {"Let me see.", kDocument, ""}, member);
  }
  s.answer(thought + "<|channel|>commentary to=functions.get <|constrain|>json<|message|>", R"({"city": "<|end|>"})");
  s.expect("a call or a document", {"Let me see.", "", R"(get({"city":"<|end|>"}))"}, with_both);
}

// Command R and Kimi K3, whose marks may stand around the answer, too.
TEST(MessageMarks, ResponsesHoldADocument) {
  constexpr const char* kResponses =
      "{# <|START_RESPONSE|> #}{% for m in messages %}{{ m.content }}{% endfor %}<|START_THINKING|>";
  MarkedServer command(kResponses,
                       {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"});
  command.answer("Let me see.<|END_THINKING|><|START_RESPONSE|>", kDocument, "<|END_RESPONSE|>");
  command.expect("Command R", {"Let me see.", kDocument, ""}, with_document);
  command.answer("Let me see.<|END_THINKING|>", kDocument);
  command.expect("Command R without marks", {"Let me see.", kDocument, ""}, with_document);
  MarkedServer kimi("{% for m in messages %}{{ m.content }}{% endfor %}{# <|close|> #}<|open|>think<|sep|>",
                    {"<|open|>", "<|close|>", "<|sep|>"});
  kimi.answer("Let me see.<|close|>think<|sep|><|open|>response<|sep|>", kDocument,
              "<|close|>response<|sep|><|close|>message<|sep|>");
  kimi.expect("Kimi K3", {"Let me see.", kDocument, ""}, with_document);
}

// Other documents than JSON may begin and end with marks: where they say which, it is refused, else it is kept from.
TEST(MessageMarks, DocumentsBeginAndEndWithNone) {
  MarkedServer s("{# <|START_RESPONSE|> #}{% for m in messages %}{{ m.content }}{% endfor %}<|START_THINKING|>",
                 {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"});
  const Dialect& chat = dialects()[0];
  const auto ask = [&](const std::string& member) { return s.post(chat.path, chat.begin + "," + member + "}"); };
  const auto obeys = [&](const std::string& member, const std::string& document) {
    s.answer("Hm.<|END_THINKING|>", document, "<|END_RESPONSE|>");
    const HttpResponse r = ask(member);
    EXPECT_EQ(r.status, 200) << r.body;
    EXPECT_TRUE(!s.obeys || whole_chat(parse_json(r.body)).text == document) << r.body;
    return s.obeys;
  };
  const std::string any = R"("regex":"a|^[^b]*$")";
  for (const char* document : {"a", "<|x", "x<|START_RESPONSE|>x", "<|END_RESPONSE|"})
    EXPECT_TRUE(obeys(any, document)) << document;
  for (const char* document :
       {"b", "<|END_RESPONSE|>.", "<|START_RESPONSE|>x", " <|START_THINKING|>", "x<|END_RESPONSE|>"})
    EXPECT_FALSE(obeys(any, document)) << document;
  EXPECT_TRUE(obeys(R"("choice":["a <|END_RESPONSE|> b","b"])", "a <|END_RESPONSE|> b"));
  for (const char* text : {"\\n<|START_RESPONSE|>b", "b<|END_RESPONSE|>"}) {
    const HttpResponse r = ask(R"("guided_choice":["a",")" + std::string(text) + "\"]");
    EXPECT_EQ(r.status, 400) << r.body;
    EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), "guided_choice[1]") << r.body;
  }
  const HttpResponse r = ask(R"("regex":"a)|(?:b")");
  EXPECT_EQ(r.status, 400) << "as if it stood alone: " << r.body;
}

}  // namespace
}  // namespace quire
