// Marked calls whose marks say what a value is, whose values may stand in further marks, or whose first mark may be
// missing: how they are read, and what may be written.
#include <gtest/gtest.h>

#include "text/grammar/grammar_testing.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

Json schema() {
  return *Json::parse(R"({"properties":{"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":["number","null"]},
      "e":{"enum":["a",1]},"r":{"type":"array"},"t":true}})");
}

void expect_parts(const char* family, std::string_view text, const std::string& wanted) {
  auto rules = std::make_shared<CallRules>();
  rules->form = find_call_form(family);
  rules->names = {"get", "search"};
  rules->kinds.resize(2, ArgumentKinds(schema()));
  for (size_t cut = 1; cut <= text.size() + 1; ++cut)
    EXPECT_EQ(shown(read_in_pieces(CallParser(rules), text, cut)), wanted)
        << family << ": " << text << " cut at " << cut;
}

// Whether a call that has to obey, or need not, may be written so.
bool takes(const char* family, std::string_view text, bool obeys) {
  const CallForm& form = *find_call_form(family);
  const auto arguments =
      obeys ? obeying_arguments(form, schema()) : Result<Json>(any_arguments(form, ArgumentKinds(schema())));
  EXPECT_TRUE(arguments) << (arguments ? "" : arguments.error().message);
  if (!arguments) return false;
  const CallableTool tools[] = {{"get", *arguments}};
  const auto made = compile_structural_tag(call_tag(form, tools, {}), {}, {});
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return quire::takes(*made, text);
}

TEST(MarkedCalls, MarksSayWhichValuesAreStrings) {
  const auto call = [](const std::string& parameters) {
    return "Hm\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get\">\n" + parameters +
           "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  };
  const auto parameter = [](const std::string& key, const char* is_string, const std::string& value) {
    return "<｜DSML｜parameter name=\"" + key + "\" string=\"" + is_string + "\">" + value + "</｜DSML｜parameter>\n";
  };
  const std::string begin = "text: Hm\ncall: get\narguments: ";
  expect_parts("deepseek_v4", call(parameter("s", "true", "7 <｜DSML｜") + parameter("n", "false", "null")),
               begin + "{\"s\": \"7 <｜DSML｜\", \"n\": null}\n");
  expect_parts("deepseek_v4", call(parameter("other", "true", "7") + parameter("r", "false", "[\"a\"]")),
               begin + "{\"other\": \"7\", \"r\": [\"a\"]}\n");
  expect_parts("deepseek_v4", call(parameter("i", "true", "7") + parameter("s", "false", "\"a\"")),
               begin + "{\"i\": 7, \"s\": \"a\"}\n");
  expect_parts("deepseek_v4", call(parameter("s", "false", "no JSON")), begin + "{\"s\": \"no JSON\"}\n");
  expect_parts(
      "deepseek_v32",
      "<｜DSML｜function_calls><｜DSML｜invoke name=\"search\"></｜DSML｜invoke>\n<｜DSML｜invoke name=\"get\">" +
          parameter("i", "false", "-1") + "</｜DSML｜invoke></｜DSML｜function_calls>Done",
      "call: search\narguments: {}\ncall: get\narguments: {\"i\": -1}\ntext: Done\n");
}

// An answer of Kimi K3's that calls get with this argument.
std::string section(const std::string& argument) {
  return "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"get\" index=\"1\"<|sep|><|open|>argument "
         "key=\"" +
         argument + "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>";
}

TEST(MarkedCalls, CallsMayBeASectionBehindTheResponse) {
  const std::pair<const char*, const char*> arguments[] = {
      {"s\" type=\"string\"<|sep|>7 <|close|>call", "{\"s\": \"7 <|close|>call\"}"},
      {"i\" type=\"number\"<|sep|>7", "{\"i\": 7}"},
      {"a &amp; &quot;b&quot; &amp;amp;\" type=\"null\"<|sep|>null", "{\"a & \\\"b\\\" &amp;\": null}"},
      {"o\" type=\"array\"<|sep|>[\"<|close|>argument<|sep|>\"]", "{\"o\": [\"<|close|>argument<|sep|>\"]}"},
      {"r\" type=\"object\"<|sep|>{\"a\": {}}", "{\"r\": {\"a\": {}}}"},
      {"b\" type=\"boolean\"<|sep|>true", "{\"b\": true}"}};
  const std::string thought = "I look.<|close|>think<|sep|><|open|>response<|sep|>";
  auto rules = std::make_shared<CallRules>();
  rules->form = find_call_form("kimi_k3");
  rules->names = {"get"};
  rules->kinds = {ArgumentKinds(schema())};
  for (const auto& [argument, json] : arguments) {
    const std::string call = std::string("call: get\narguments: ") + json + "\n";
    expect_parts("kimi_k3", "Hm" + section(argument), "text: Hm\n" + call);
    EXPECT_TRUE(takes("kimi_k3", "Hm" + section(argument), false)) << argument;
    const std::string answer = thought + "Hm" + section(argument) + "<|close|>message<|sep|>";
    for (const size_t cut : {size_t{1}, size_t{7}, answer.size()})
      EXPECT_EQ(shown(read_in_pieces(AnswerParser(ReasoningForm::Kind::kimi, true, rules), answer, cut)),
                "reasoning: I look.\ntext: Hm\n" + call)
          << answer;
  }
  for (const char* argument :
       {"s\" type=\"string\"<|sep|>a", "n\" type=\"null\"<|sep|>null", "n\" type=\"number\"<|sep|>1.5",
        "t\" type=\"object\"<|sep|>{\"a\": 1}", "t\" type=\"number\"<|sep|>1", "t\" type=\"string\"<|sep|>{",
        "e\" type=\"string\"<|sep|>a", "e\" type=\"number\"<|sep|>1"})
    EXPECT_TRUE(takes("kimi_k3", section(argument), true)) << argument;
  for (const char* argument :
       {"i\" type=\"string\"<|sep|>7", "n\" type=\"null\"<|sep|>1", "n\" type=\"number\"<|sep|>null",
        "e\" type=\"string\"<|sep|>1", "i\" type=\"integer\"<|sep|>7", "n\" type=\"number\"<|sep|>\"1\"",
        "t\" type=\"number\"<|sep|>{\"a\": 1}", "t\" type=\"null\"<|sep|>[]"})
    EXPECT_FALSE(takes("kimi_k3", section(argument), true)) << argument;
  EXPECT_TRUE(takes("kimi_k3", section("other\" type=\"number\"<|sep|>1.5"), false));
  EXPECT_FALSE(takes("kimi_k3", section("other\" type=\"number\"<|sep|>true"), false));
}

// What a reader of responses takes out of text is no part of it, and still keeps apart what stands around it.
TEST(MarkedCalls, MarksWithinTextJoinNoOtherMark) {
  auto rules = std::make_shared<CallRules>();
  rules->form = find_call_form("kimi_k3");
  rules->names = {"get"};
  rules->kinds = {ArgumentKinds(schema())};
  const std::string call = "<|open|>call tool=\"get\" index=\"1\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>";
  const std::string whole = "<|open|>tools<|sep|>" + call;
  for (const size_t at : {size_t{2}, size_t{11}, size_t{20}, size_t{24}}) {
    for (const std::string mark : {"<|close|>message<|sep|>", "<|open|>response<|sep|>", "<|close|>response<|sep|>"}) {
      const std::string answer = "Hm" + whole.substr(0, at) + mark + whole.substr(at);
      EXPECT_TRUE(takes("kimi_k3", answer, true)) << "text, for the grammar: " << answer;
      for (size_t cut = 1; cut <= answer.size(); ++cut)
        ASSERT_EQ(shown(read_in_pieces(AnswerParser(ReasoningForm::Kind::kimi, false, rules), answer, cut)),
                  "text: Hm" + whole + "\n")
            << answer << " cut at " << cut;
    }
  }
}

TEST(MarkedCalls, MessagesToToolsAreCalls) {
  const std::string block =
      "<atem:function_calls>\n<atem:invoke name=\"get\">\n<atem:parameter "
      "name=\"i\">7</atem:parameter>\n</atem:invoke>\n"
      "</atem:function_calls>";
  const std::string call = " to=get<|message|>" + block, next = "<|eom|><|start|>assistant",
                    said = " to=user<|message|>Hm";
  const std::string thought = " to=self<|message|>I look.", told = "call: get\narguments: {\"i\": 7}\n";
  auto rules = std::make_shared<CallRules>();
  rules->form = find_call_form("muse");
  rules->names = {"get", "search"};
  rules->kinds.resize(2, ArgumentKinds(schema()));
  const std::pair<std::string, std::string> answers[] = {
      {call, told},
      {call + next + call + "<|eot|>", told + told},
      {thought + next + call, "reasoning: I look.\n" + told},
      {said + next + call, "text: Hm\n" + told},
      {said + ": " + block, "text: Hm: " + block + "\n"},
      {thought + " " + block + next + said, "reasoning: I look. " + block + "\ntext: Hm\n"}};
  for (const auto& [answer, parts] : answers) {
    for (const size_t cut : {size_t{1}, size_t{5}, answer.size()})
      EXPECT_EQ(shown(read_in_pieces(AnswerParser(ReasoningForm::Kind::muse, false, rules), answer, cut)), parts)
          << answer;
    EXPECT_EQ(takes("muse", answer, true), !answer.ends_with("<|eot|>")) << answer;
  }
  // No calls: only what the model wrote is shown.
  const std::pair<std::string, std::string> broken[] = {
      {" to=get<|message|>I look it up.", "text: I look it up.\n"},
      {" to=get<|message|>", ""},
      {" to=get<|message|><atem:function_calls>\n<atem:invoke name=\"ge",
       "text: <atem:function_calls>\n<atem:invoke name=\"ge\n"},
      {" to=set<|message|>" + std::string("<atem:function_calls>\n<atem:invoke name=\"set\">\n"),
       "text: <atem:function_calls>\n<atem:invoke name=\"set\">\n\n"},
      {said + next + " to=get<|message|> I look." + next + call, "text: Hm I look.\n" + told},
      {" to=get<|message|>" + next + call, told},
      {" to=get<|message|><atem:function_calls>\n<atem:invoke name=\"ge" + next + call,
       "text: <atem:function_calls>\n<atem:invoke name=\"ge\n" + told},
      {call.substr(0, call.find("\n</atem:invoke>")) + next + call, "call: get\narguments: {\"i\": 7\n" + told},
      {call + next + " to=get<|message|>I look.<|eot|>", told + "text: I look.\n"}};
  for (const auto& [answer, parts] : broken) {
    for (size_t cut = 1; cut <= answer.size(); ++cut)
      ASSERT_EQ(shown(read_in_pieces(AnswerParser(ReasoningForm::Kind::muse, false, rules), answer, cut)), parts)
          << answer << " cut at " << cut;
    EXPECT_FALSE(takes("muse", answer, true)) << answer;
  }
  EXPECT_FALSE(takes("muse", " to=user<|message|>" + next + call + next + said, true)) << "calls are the last";
  EXPECT_FALSE(takes("muse", " to=search<|message|>" + block, true)) << "the two names are one";
}

TEST(MarkedCalls, ValuesMayStandInCdata) {
  const auto one = [](const std::string& value) {
    return "<function name=\"get\"><param name=\"s\">" + value + "</param></function>";
  };
  const auto read = [](const std::string& value) { return "call: get\narguments: {\"s\": \"" + value + "\"}\n"; };
  expect_parts("minicpm", one("a") + "\n" + one("<![CDATA[<b> & ]]]>"), read("a") + read("<b> & ]"));
  expect_parts("minicpm", one("") + one("<![CDATA[]]>") + one("<![CDATA"), read("") + read("") + read("<![CDATA"));
  expect_parts("minicpm", one("a<![CDATA[b]]>") + one("<![CDATA[b</param>]]>"),
               read("a<![CDATA[b]]>") + read("b</param>"));
  expect_parts("minicpm", "<function name=\"get\"><param name=\"i\"><![CDATA[7]]></param></function>",
               "call: get\narguments: {\"i\": 7}\n");
}

TEST(MarkedCalls, TheFirstMarkMayLack) {
  expect_parts("qwen_coder",
               "I call.\n<function=get>\n<parameter=i>\n7\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
               "<function=search>\n</function>\n</tool_call>",
               "text: I call.\ncall: get\narguments: {\"i\": 7}\ncall: search\narguments: {}\n");
  expect_parts("qwen_coder", "Write <function=gat> or <function>.", "text: Write <function=gat> or <function>.\n");
  expect_parts("kimi",
               "<|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{\"i\": 7}<|tool_call_begin|>"
               "functions.search:1<|tool_call_argument_begin|>{}<|tool_call_end|>",
               "call: get\narguments: {\"i\": 7}\ncall: search\narguments: {}\n");
}

TEST(MarkedCalls, AreWrittenWithTheMarksThatAreRead) {
  const auto call = [](const std::string& parameter) {
    return "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get\">\n<｜DSML｜parameter name=\"" + parameter +
           "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  };
  const std::string yes[] = {"s\" string=\"true\">a", "i\" string=\"false\">7", "n\" string=\"false\">null",
                             "e\" string=\"true\">a", "e\" string=\"false\">1", "r\" string=\"false\">[1]"};
  const std::string no[] = {"i\" string=\"true\">7", "i\" string=\"false\">\"7\"", "e\" string=\"true\">1",
                            "s\" string=\"false\">a"};
  for (const std::string& parameter : yes) {
    EXPECT_TRUE(takes("deepseek_v4", call(parameter), true)) << parameter;
    EXPECT_TRUE(takes("deepseek_v4", call(parameter), false)) << parameter;
  }
  for (const std::string& parameter : no) EXPECT_FALSE(takes("deepseek_v4", call(parameter), true)) << parameter;
  EXPECT_FALSE(takes("deepseek_v4", call("other\" string=\"false\">no JSON"), false));
  const auto one = [](const std::string& value) {
    return "<function name=\"get\"><param name=\"s\">" + value + "</param>\n</function>";
  };
  for (const bool obeys : {true, false}) {
    EXPECT_TRUE(takes("minicpm", one("<b>"), obeys));
    EXPECT_TRUE(takes("minicpm", one("<![CDATA[</param>]]>"), obeys));
    EXPECT_FALSE(takes("minicpm", one("<![CDATA[b"), obeys));
    EXPECT_TRUE(takes("qwen_coder", "Hm <function=get>\n</function>\n</tool_call>", obeys));
    EXPECT_FALSE(takes("qwen_coder", "Hm <function=other>\n</function>\n</tool_call>", obeys));
  }
}

// Arguments that need not obey: any name that the marks can hold.
TEST(MarkedCalls, FreeArgumentsHaveAnyNames) {
  const std::pair<const char*, std::pair<const char*, const char*>> written[] = {
      {"qwen_coder", {"<tool_call>\n<function=get>\n<parameter=", ">\n1\n</parameter>\n</function>\n</tool_call>"}},
      {"seed", {"<seed:tool_call>\n<function=get>\n<parameter=", ">1</parameter>\n</function>\n</seed:tool_call>"}},
      {"glm", {"<tool_call>get\n<arg_key>", "</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"}},
      {"minimax",
       {"<minimax:tool_call>\n<invoke name=\"get\">\n<parameter name=\"",
        "\">1</parameter>\n</invoke>\n</minimax:tool_call>"}},
      {"minimax_m3",
       {"]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get\">]<]minimax[>[<",
        ">1]<]minimax[>[</k>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>"}},
      {"gemma4", {"<|tool_call>call:get{", ":1}<tool_call|>"}}};
  for (const auto& [family, around] : written) {
    auto rules = std::make_shared<CallRules>();
    rules->form = find_call_form(family);
    rules->names = {"get"};
    const CallableTool free[] = {{"get", any_arguments(*rules->form, {})}};
    const auto made = compile_structural_tag(call_tag(*rules->form, free, {}), {}, {});
    for (const std::string key : {"größe", "max size", "a", "名前", "x/y[0]", "it's", "$ref"}) {
      const std::string text = around.first + key + around.second;
      EXPECT_TRUE(quire::takes(made, text)) << text;
      const auto read = Json::parse(read_in_pieces(CallParser(rules), text, text.size()).joined(PartKind::arguments));
      ASSERT_TRUE(read) << text;
      ASSERT_NE(read->find(key), nullptr) << text;
    }
    for (const std::string& key :
         {std::string(), std::string(" a"), std::string("a "), std::string("a\nb"), std::string(65, 'k')})
      EXPECT_FALSE(quire::takes(made, around.first + key + around.second)) << key;
  }
}

}  // namespace
}  // namespace quire
