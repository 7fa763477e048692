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
      "e":{"enum":["a",1]},"r":{"type":"array"}}})");
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

}  // namespace
}  // namespace quire
