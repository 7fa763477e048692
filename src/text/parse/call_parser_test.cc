// Calls of every family: read back exactly, the same however the text is cut; what is no call is text.
#include "text/parse/call_parser.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/sanitized.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

std::shared_ptr<const CallRules> rules_of(const char* family, bool only_one = false) {
  const CallForm* form = find_call_form(family);
  EXPECT_NE(form, nullptr) << family;
  CallRules rules{form, {"get_weather", "get", "search"}, only_one, {}};
  rules.kinds.resize(3, ArgumentKinds(*Json::parse(R"({"properties":{"s":{"type":"string"},"i":{"type":"integer"},
      "n":{"type":["number","null"]},"k":{"enum":["a",true]},"r":{"$ref":"#/$defs/d"}},"$defs":{"d":{"anyOf":[
      {"type":"object"},{"type":"array"}]}}})")));
  return std::make_shared<const CallRules>(std::move(rules));
}

AnswerParts parse(const std::shared_ptr<const CallRules>& rules, std::string_view text, size_t cut) {
  return read_in_pieces(CallParser(rules), text, cut);
}

void expect_parts(const char* family, std::string_view text, const std::string& wanted, bool only_one = false) {
  const auto rules = rules_of(family, only_one);
  for (size_t cut = 1; cut <= text.size() + 1; ++cut)
    EXPECT_EQ(shown(parse(rules, text, cut)), wanted) << family << ": " << text << " cut at " << cut;
}

TEST(CallParser, ReadsCallsBetweenText) {
  expect_parts("hermes",
               "I look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": [1, {}]}}\n</tool_call>\nDone. \n",
               "text: I look.\ncall: get\narguments: {\"a\": [1, {}]}\ntext: Done.\n");
  expect_parts("hermes",
               "<tool_call>{\"arguments\":{},\"id\":7,\"name\":\"get\"}</tool_call>\n<tool_call>{\"name\":\"search\"}",
               "call: get\narguments: {}\ncall: search\narguments: {}\n");
  expect_parts(
      "llama3_json",
      " {\"type\": \"function\", \"name\": \"get\", \"parameters\": {}}; {\"name\":\"get\",\"parameters\":{\"b\":2}}",
      "call: get\narguments: {}\ncall: get\narguments: {\"b\":2}\n");
  expect_parts("mistral_list",
               "[TOOL_CALLS] [{\"name\": \"get\", \"arguments\": {\"x\": 1}, \"id\": \"1\"}, {\"name\": \"search\", "
               "\"arguments\": {}}]",
               "call: get\narguments: {\"x\": 1}\ncall: search\narguments: {}\n");
  expect_parts("mistral", "Hm[TOOL_CALLS]get[CALL_ID]abc[ARGS]{\"x\": 1}[TOOL_CALLS]get_weather[ARGS]{}",
               "text: Hm\ncall: get\narguments: {\"x\": 1}\ncall: get_weather\narguments: {}\n");
  expect_parts("gigachat", "Hm<|function_call|>{\"name\": \"get\", \"arguments\": {\"x\": 1}}",
               "text: Hm\ncall: get\narguments: {\"x\": 1}\n");
  expect_parts(
      "gigachat3",
      "Hm<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get\", \"arguments\": {}}<|message_sep|>\n",
      "text: Hm\ncall: get\narguments: {}\n");
  expect_parts("gigachat3", "Hm<|message_sep|>\n\n", "text: Hm\n");
  for (const char* begin : {"Action:\n```json\n[", "Action: ```json\n["})
    expect_parts("command_r",
                 "Hm\n" + std::string(begin) +
                     "\n    {\n        \"tool_name\": \"get\",\n        \"parameters\": {}\n    }\n]\n```",
                 "text: Hm\ncall: get\narguments: {}\n");
  expect_parts("apriel",
               "<tool_calls>[{\"name\": \"get\", \"arguments\": {}}, {\"name\": \"search\", \"arguments\": {\"x\": 1}}]"
               "</tool_calls>Done",
               "call: get\narguments: {}\ncall: search\narguments: {\"x\": 1}\ntext: Done\n");
  expect_parts("deepseek_v31",
               "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"é\": \"｜\"}<｜tool▁call▁end｜>"
               "<｜tool▁call▁begin｜>search<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
               "call: get\narguments: {\"é\": \"｜\"}\ncall: search\narguments: {}\n");
}

TEST(CallParser, ValuesBetweenMarksAreOfTheirParametersKind) {
  expect_parts("qwen_coder",
               "<tool_call>\n<function=get>\n<parameter=s>\n02134\n</parameter>\n<parameter=i>\n02134\n</parameter>\n"
               "<parameter=n>\n1.50\n</parameter>\n<parameter=k>\nTrue\n</parameter>\n<parameter=r>\n[1, {}]\n"
               "</parameter>\n<parameter=other>\nNone\n</parameter>\n</function>\n</tool_call> \nDone",
               "call: get\narguments: {\"s\": \"02134\", \"i\": \"02134\", \"n\": 1.50, \"k\": true, \"r\": [1, {}], "
               "\"other\": null}\ntext: Done\n");
  expect_parts("qwen_coder",
               "<tool_call><function=get><parameter=s>\n\n <b>\"é\"\n</param\n\n</parameter></function></tool_call>",
               "call: get\narguments: {\"s\": \"\\n <b>\\\"é\\\"\\n</param\\n\"}\n");
  expect_parts("seed",
               "Hm<seed:tool_call>\n<function=get>\n<parameter=s>\nx\n</parameter>\n<parameter=s>2</parameter>\n"
               "<parameter=i>7</parameter></function>\n</seed:tool_call>",
               "text: Hm\ncall: get\narguments: {\"s\": \"\\nx\\n\", \"i\": 7}\n");
  expect_parts("glm",
               "<tool_call>get\n<arg_key>i</arg_key>\n<arg_value>7</arg_value>\n<arg_key>s</arg_key>\n<arg_value>7"
               "</arg_value>\n</tool_call>\n<tool_call>search</tool_call>",
               "call: get\narguments: {\"i\": 7, \"s\": \"7\"}\ncall: search\narguments: {}\n");
  expect_parts("minimax",
               "<minimax:tool_call>\n<invoke name=\"get\">\n<parameter name=\"s\">true</parameter>\n</invoke>\n"
               "<invoke name=\"search\">\n</invoke>\n</minimax:tool_call>",
               "call: get\narguments: {\"s\": \"true\"}\ncall: search\narguments: {}\n");
  expect_parts("minimax", "<minimax:tool_call><invoke name=\"get\"><parameter name=\"s\">tr",
               "call: get\narguments: {\"s\": \"tr\n");
  expect_parts("glm", "<tool_call>gat\n</tool_call>", "text: <tool_call>gat\n</tool_call>\n");
}

TEST(CallParser, ElementsInTagsComeAsJson) {
  const auto call = [](std::string inside) {
    for (size_t at = 0; (at = inside.find('~', at)) != std::string::npos;) inside.replace(at, 1, "]<]minimax[>[");
    return "Hm]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get\">" + inside;
  };
  const std::string end = "~</invoke>\n~</tool_call>", head = "text: Hm\ncall: get\narguments: ";
  const std::pair<const char*, const char*> values[] = {
      {"", "{}"},
      {"~<s>02134~</s>~<i>7~</i>", "{\"s\": \"02134\", \"i\": 7}"},
      {"~<s> a\"b\n<c> ]<]mini ~</s>", "{\"s\": \" a\\\"b\\n<c> ]<]mini \"}"},
      {"~<r>~<item>1~</item>~<item>~<a>x~</a>~</item>~</r>", "{\"r\": [1, {\"a\": \"x\"}]}"},
      {"~<r>\n ~<a>~<item>true~</item>~</a>\n~</r>\n", "{\"r\": {\"a\": [true]}}"},
      {"~<i>1~</i>~<i>2~</i>~<u>~<a>1~</a>~<a>2~</a>~<b>3~</b>~</u>", "{\"i\": 1, \"u\": {\"a\": 1, \"b\": 3}}"},
      {"~<s>~</s>~<r>~</r>~<u>~</u>", "{\"s\": \"\", \"r\": {}, \"u\": \"\"}"}};
  for (const auto& [inside, json] : values)
    expect_parts("minimax_m3", call(inside + end) + "Done", head + json + "\ntext: Done\n");
  for (const char* broken : {"~<i>1~</i>x", "~<u>x~<a>1~</a>~</u>~</invoke>", "~<>1~</>", "~x"}) {
    const AnswerParts parts = parse(rules_of("minimax_m3"), call(broken), 1);
    EXPECT_FALSE(Json::parse(parts.joined(PartKind::arguments))) << broken << ": " << shown(parts);
  }
  // JSON in elements: a string where it would be too deep with them.
  for (const auto& [n, is_json] : {std::pair<int, bool>{kMaxJsonDepth - 2, true}, {kMaxJsonDepth - 1, false}}) {
    const std::string list = std::string(static_cast<size_t>(n), '[') + std::string(static_cast<size_t>(n), ']');
    const auto read = Json::parse(
        parse(rules_of("minimax_m3"), call("~<u>~<a>" + list + "~</a>~</u>" + end), 7).joined(PartKind::arguments));
    ASSERT_TRUE(read);
    EXPECT_EQ(*read->find("u")->find("a"), is_json ? *Json::parse(list) : Json(list));
  }
  std::string deep, shut;
  for (int i = 0; i < kMaxJsonDepth + 1; ++i) deep += "~<item>", shut += "~</item>";
  EXPECT_FALSE(Json::parse(
      parse(rules_of("minimax_m3"), call("~<u>" + deep + shut + "~</u>" + end), 7).joined(PartKind::arguments)));
}

TEST(CallParser, MessagesSayToWhomTheyAre) {
  expect_parts("functionary_v32", "all\nI look.\n>>>get\n{\"a\": \">>>all\"}>>>search\n{}",
               "text: I look.\ncall: get\narguments: {\"a\": \">>>all\"}\ncall: search\narguments: {}\n");
  expect_parts("functionary_v32", "get\n{}", "call: get\narguments: {}\n");
  expect_parts("functionary_v32", "all\n>>> 1 + 1\n2", "text: >>> 1 + 1\n2\n");
  expect_parts("functionary_v32", "all\n", "");
  const std::string call = "call: get\narguments: {\"i\": 1}\n";
  for (const char* mark : {">>>", ">>>>", "x >>> y >>>", ">>>>>>", ">>>g>>>", ">>>ge>>", ">>>al>>>"})
    EXPECT_EQ(
        shown(parse(rules_of("functionary_v32"), "all\n" + std::string(mark) + "get\n{\"i\": 1}", 1)).ends_with(call),
        std::string_view(mark).ends_with(">>>"))
        << mark;
  expect_parts("functionary_v32", "all\nx >>> y >>>get\n{\"i\": 1}", "text: x >>> y\n" + call);
  for (const char* text : {">>> get\n{}", ">>>get \n{}", ">>>\nget\n{}", ">> >get\n{}", ">>>get", ">>>\n"})
    expect_parts("functionary_v32", "all\n" + std::string(text), "text: " + std::string(text) + "\n");
  expect_parts("functionary_v32", "all\nhi>>>get\n{\"i\": 1}>>>all\nho", "text: hi\n" + call + "text: ho\n");
  expect_parts("functionary_v32", "get\n{\"i\": 1} >> >get\n{}", call + "text: >> >get\n{}\n");
  expect_parts("functionary_v32", "get\n{\"i\": 1}\n>>>get\n{}>>", call + "call: get\narguments: {}\n");
  for (const char* text : {"al", "allow", "gat\n{}", "get {}", ">>>gat\n{}"})
    expect_parts("functionary_v32", text, "text: " + std::string(text) + "\n");
}

TEST(CallParser, ArgumentsInPythonComeAsJson) {
  expect_parts("pythonic", " [get(s=\"a\", i=1),\n get_weather( )] ",
               "call: get\narguments: {\"s\": \"a\", \"i\": 1}\ncall: get_weather\narguments: {}\n");
  expect_parts("lfm2", "I look.<|tool_call_start|>[get(s='it\\'s \"x\"')]<|tool_call_end|>Wait.",
               "text: I look.\ncall: get\narguments: {\"s\": \"it's \\\"x\\\"\"}\ntext: Wait.\n");
  const std::pair<const char*, const char*> values[] = {
      {"True", "true"},
      {"false", "false"},
      {"None", "null"},
      {"[True, None, ]", "[true, null]"},
      {"{'a': [ ], \"b\" : {'c': False,},}", "{\"a\": [], \"b\": {\"c\": false}}"},
      {"1_000", "1000"},
      {"+.5", "0.5"},
      {"-5.", "-5.0"},
      {"1.50e-3", "1.50e-3"},
      {"123456789012345678", "123456789012345678"},
      {"'02134'", "\"02134\""},
      {"'a\\n\\t\\\\\\/\\d'", "\"a\\n\\t\\\\/\\\\d\""},
      {"'\\x41\\u00e9\\U0001F600\\101\\0'", "\"\\u0041\\u00e9\\ud83d\\ude00\\u0041\\u0000\""},
      {"'\\ud83d\\ude00'", "\"\\ud83d\\ude00\""},
      {"\"line\nnext\\\nsame\"", "\"line\\u000anextsame\""},
      {"'größe ) ] } , ='", "\"größe ) ] } , =\""},
      {"'</tool_call>]<|tool_call_end|>'", "\"</tool_call>]<|tool_call_end|>\""}};
  for (const auto& [python, json] : values)
    expect_parts("pythonic", "[get(a=0, größe = " + std::string(python) + " , )]",
                 "call: get\narguments: {\"a\": 0, \"größe\": " + std::string(json) + "}\n");
  expect_parts("pythonic", "[get(a=1, a=[2, 'x'], b=3)]", "call: get\narguments: {\"a\": 1, \"b\": 3}\n");
}

TEST(CallParser, WhatIsNoCallInPythonIsText) {
  for (const char* text : {"[", "[get", "[get(", "[get(a", "[get(1)]", "[get(\"a\")]", "[get(, a=1)]", "[get](url)",
                           "[getter(a=1)]", "[1, 2]", "get(a=1)", "[[get(a=1)]]", "[]", "[get(=1)]", "See [get(a=1)]"})
    expect_parts("pythonic", text, "text: " + std::string(text) + "\n");
  for (const char* value :
       {"007", "1__0",  "1_",   "0x1F",    "yes",     "1+1",           "f(1)",          "(1, 2)", "{1, 2}", "{1: 2}",
        "[,]", "[1 2]", "r'a'", "'a' 'b'", "'\\xg0'", "'\\U00110000'", "'\\U0000d800'", "inf",    "-",      "]"}) {
    const std::string text = "[get(k=0, a=" + std::string(value) + ")]";
    const AnswerParts parts = parse(rules_of("pythonic"), text, 1);
    ASSERT_TRUE(parts.has(PartKind::call));
    EXPECT_FALSE(Json::parse(parts.joined(PartKind::arguments))) << text << ": " << shown(parts);
    EXPECT_TRUE(parts.has(PartKind::text)) << text << ": " << shown(parts);
  }
  const auto nested = [](int depth) {
    const auto n = static_cast<size_t>(depth);
    return "[get(a=" + std::string(n, '[') + std::string(n, ']') + ")]";
  };
  const auto arguments = [](const AnswerParts& parts) { return Json::parse(parts.joined(PartKind::arguments)); };
  EXPECT_TRUE(arguments(parse(rules_of("pythonic"), nested(kMaxJsonDepth - 1), 7)));
  EXPECT_FALSE(arguments(parse(rules_of("pythonic"), nested(kMaxJsonDepth), 7)));
}

TEST(CallParser, AnEndMarkInAStringIsText) {
  expect_parts("hermes", "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": \"</tool_call>\\\"}\"}}</tool_call>",
               "call: get\narguments: {\"a\": \"</tool_call>\\\"}\"}\n");
}

TEST(CallParser, WhatIsNoCallIsText) {
  for (const char* text : {"<tool_call", "<tool_call>", "<tool_call>\n{\"name\": \"ge",
                           "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
                           "<tool_call>{\"name\": \"get\", \"arguments\": \"x\"}", "<tool_call>{\"name\": 3}",
                           "a < b <tool_calls> c  ", "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"no\"}", "  "})
    expect_parts("hermes", text, "text: " + std::string(text) + "\n");
  for (const char* text : {"Hello {\"name\": \"get\", \"parameters\": {}}", "{\"answer\": 3}", "[1]", "\n\n{}"})
    expect_parts("llama3_json", text, "text: " + std::string(text) + "\n");
  expect_parts("hermes", "<tool_call><tool_call>{\"name\":\"get\"}</tool_call>",
               "text: <tool_call>\ncall: get\narguments: {}\n");
}

// Where an answer may be a document as well, and no mark tells the two: what the grammar of calls lets through is a
// call.
TEST(CallParser, ADocumentThatLooksLikeACallIsText) {
  auto rules = std::make_shared<CallRules>(*rules_of("llama3_json"));
  rules->or_document = true;
  for (const char* text :
       {"{\"name\": \"get\"}", "{\"name\": \"get\", \"zone\": 1}", "{\"type\": \"x\", \"name\": \"get\"}",
        "{\"name\": \"get\", \"parameters\": {\"a\": 1}, \"more\": 2}", "{\"name\": \"get\", \"parameters\": [1]}",
        "{\"name\": \"get\", \"parameters\": {\"a\": ", "{\"name\": \"Paris\"}", "{\"city\": \"get\"}"})
    for (size_t cut = 1; cut <= std::string_view(text).size() + 1; ++cut)
      EXPECT_EQ(shown(parse(rules, text, cut)), "text: " + std::string(text) + "\n") << cut;
  const std::string call = "{\"name\": \"get\", \"parameters\": {\"a\": 1}}";
  for (size_t cut = 1; cut <= call.size() + 1; ++cut) {
    EXPECT_EQ(shown(parse(rules, call, cut)), "call: get\narguments: {\"a\": 1}\n");
    EXPECT_EQ(shown(parse(rules, call + "; " + call, cut)),
              "call: get\narguments: {\"a\": 1}\ncall: get\narguments: {\"a\": 1}\n");
  }
  auto python = std::make_shared<CallRules>(*rules_of("pythonic"));
  python->or_document = true;
  for (const std::string text : {"[get(a=1, ", "[get(a=1, 2)]", "[\"get\"]", "[]", "[get(a=(1))]"})
    EXPECT_EQ(shown(parse(python, text, 1)), "text: " + text + "\n");
  EXPECT_EQ(shown(parse(python, "[get(a=1), get()]", 1)),
            "call: get\narguments: {\"a\": 1}\ncall: get\narguments: {}\n");
  auto marked = std::make_shared<CallRules>(*rules_of("hermes"));
  marked->or_document = true;
  EXPECT_EQ(shown(parse(marked, "<tool_call>{\"arguments\": {}, \"name\": \"get\"}</tool_call>", 3)),
            "call: get\narguments: {}\n");
}

TEST(CallParser, WhatIsCutStaysAsFarAsItCame) {
  expect_parts("hermes", "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": \"x",
               "call: get\narguments: {\"a\": \"x\n");
  expect_parts("hermes", "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_", "call: get\narguments: {}\n");
  expect_parts("hermes", "<tool_call>{\"name\": \"get\", \"arguments\": {}]} more",
               "call: get\narguments: {}\ntext: ]} more\n");
}

// As the grammar has it, which lets text follow there.
TEST(CallParser, WhereNothingEndsACallTheNextMarkIsExact) {
  const std::string call = "{\"name\": \"get\", \"arguments\": {}}",
                    mark = "<|message_sep|>\n\nfunction call<|role_sep|>\n",
                    near = "<|message_sep|>function call<|role_sep|>", told = "call: get\narguments: {}\n";
  expect_parts("gigachat3", mark + call + near + call, told + "text: " + near + call + "\n");
  expect_parts("gigachat3", mark + call + " " + mark + call, told + told);
  expect_parts("gigachat3", mark + call + "<|message_sep|>\n\nfunction", told);
  expect_parts("gigachat", "<|function_call|>" + call + " <|function_call|>" + call, told + told);
  expect_parts("gigachat", "<|function_call|>" + call + "<|function_", told);
}

TEST(CallParser, ACallOfNothingIsNone) {
  const std::string begin = "Action:\n```json\n[\n    ", end = "\n]```",
                    none = "{\"tool_name\": \"directly_answer\", \"parameters\": {\"a\": \"b\"}}",
                    call = "{\"tool_name\": \"get\", \"parameters\": {}}", told = "call: get\narguments: {}\n";
  expect_parts("command_r", begin + none + end, "");
  expect_parts("command_r", "Hm\n" + begin + none + end, "text: Hm\n");
  expect_parts("command_r", begin + none + end + "\nIt is 4.", "text: It is 4.\n");
  expect_parts("command_r", begin + none, "");
  expect_parts("command_r", begin + none.substr(0, 55), "");
  expect_parts("command_r", begin + none + ", " + call + end, told);
  expect_parts("command_r", begin + call + ", " + none + end, told);
  expect_parts("command_r", begin + none + ", " + call + end, told, true);
  expect_parts("command_r", begin + "{\"tool_name\": \"directly\"}" + end,
               "text: " + begin + "{\"tool_name\": \"directly\"}" + end + "\n");
  CallRules rules{find_call_form("command_r"), {"directly_answer"}, false, {}};
  EXPECT_EQ(shown(parse(std::make_shared<CallRules>(rules), begin + none + end, 1)),
            "call: directly_answer\narguments: {\"a\": \"b\"}\n");
}

TEST(CallParser, OnlyOneCallEndsTheAnswer) {
  expect_parts("hermes", "<tool_call>{\"name\":\"get\"}</tool_call> more <tool_call>{\"name\":\"get\"}</tool_call>",
               "call: get\narguments: {}\n", true);
}

TEST(CallParser, AnAnswerThatIsBareCallsIsTheseWhereItMayBe) {
  const auto expect = [](std::string_view text, const std::string& wanted, bool only_one = false) {
    CallRules rules{find_call_form("hermes"), {"get", "search"}, only_one, {}};
    rules.bare = true;
    const auto shared = std::make_shared<const CallRules>(std::move(rules));
    for (size_t cut = 1; cut <= text.size() + 1; ++cut)
      EXPECT_EQ(shown(parse(shared, text, cut)), wanted) << text << " cut at " << cut;
  };
  const std::string one = R"({"name": "get", "arguments": {"a": "}</tool_call>"}})",
                    other = R"({"name":"search","arguments":{}})";
  expect("\n" + one + " \n", "call: get\narguments: {\"a\": \"}</tool_call>\"}\n");
  expect(one + "\n" + other, "call: get\narguments: {\"a\": \"}</tool_call>\"}\ncall: search\narguments: {}\n");
  expect(one + other, "call: get\narguments: {\"a\": \"}</tool_call>\"}\n", true);
  expect("<tool_call>" + other + "</tool_call>", "call: search\narguments: {}\n");
  for (const std::string& text :
       {one + " is what I would write.", "See: " + one, one + "\n" + R"({"name":"get")", one + "\n}",
        std::string(R"({"name":"none","arguments":{}})"), std::string(R"({"name":"get"})"),
        std::string(R"({"arguments":{},"name":"get"})"), std::string(R"({"name":"get","arguments":{},"id":1})"),
        std::string(R"({"name":"get","arguments":{a}})"), std::string(R"({"name":"get","arguments":[]})"),
        std::string(R"([{"name":"get","arguments":{}}])"), std::string("{")})
    expect(text, "text: " + text + "\n");
  expect(R"({"name":"get","arguments":{"a":"<tool_call>)" + other + R"("}}, no)",
         "text: {\"name\":\"get\",\"arguments\":{\"a\":\"\ncall: search\narguments: {}\ntext: \"}}, no\n");
  expect(" \n", "text:  \n\n");
}

TEST(CallParser, DeltasLeaveOnceCertain) {
  CallParser parser(rules_of("hermes"));
  AnswerParts out;
  const auto after = [&](std::string_view text) {
    out.clear();
    parser.push(text, out);
    return shown(out);
  };
  EXPECT_EQ(after("Hm"), "text: Hm\n");
  EXPECT_EQ(after(" <tool_call>{\"name\": \"get\", \"arguments\": "), "");
  EXPECT_EQ(after("{\"a"), "call: get\narguments: {\"a\n");
  EXPECT_EQ(after("\":1"), "arguments: \":1\n");
  CallParser python(rules_of("pythonic"));
  const auto then = [&](std::string_view text) {
    out.clear();
    python.push(text, out);
    return shown(out);
  };
  EXPECT_EQ(then("[get(s"), "");
  EXPECT_EQ(then("="), "call: get\narguments: {\"s\": \n");
  EXPECT_EQ(then("'it\\"), "arguments: \"it\n");
  EXPECT_EQ(then("'s', i=1"), "arguments: 's\", \"i\": \n");
  EXPECT_EQ(then("2)"), "arguments: 12}\n");
}

// Pieces of calls in random order, cut at random: the same parts as from the whole text.
TEST(CallParser, DependsOnTheTextNotOnItsCuts) {
  static const std::vector<std::string> kPieces = {"<tool_call>",
                                                   "</tool_call>",
                                                   "[TOOL_CALLS]",
                                                   "[ARGS]",
                                                   "{\"name\": \"get\"",
                                                   ", \"arguments\": ",
                                                   "{\"a\": \"}\"}",
                                                   "}",
                                                   " ",
                                                   "\n",
                                                   "{",
                                                   "\"",
                                                   ",",
                                                   "; ",
                                                   "[",
                                                   "]",
                                                   "\\",
                                                   "text",
                                                   "<",
                                                   "get",
                                                   "{\"name\": \"search\", \"arguments\": {\"q\": [1,2]}}",
                                                   "\"parameters\": {}",
                                                   "é",
                                                   ":",
                                                   "<function=get>\n",
                                                   "<seed:tool_call>",
                                                   "<minimax:tool_call>",
                                                   "<invoke name=\"get\">",
                                                   "get\n",
                                                   "<parameter=s>\n",
                                                   "<parameter=i>",
                                                   "<parameter name=\"s\">",
                                                   "\n</parameter>",
                                                   "<arg_key>s</arg_key>\n<arg_value>",
                                                   "</arg_value>",
                                                   "</function>",
                                                   "</invoke>",
                                                   "[get(",
                                                   "<|tool_call_start|>[",
                                                   "get(",
                                                   "a=",
                                                   "s='",
                                                   "'",
                                                   "\\u00",
                                                   "\\7",
                                                   "1_0",
                                                   "True",
                                                   "{'k': ",
                                                   ")",
                                                   ")]",
                                                   "<|tool_call>call:",
                                                   "get{",
                                                   "s:<|\"|>",
                                                   "<|\"",
                                                   "<tool_call|>",
                                                   "<|open|>tools<|sep|><|open|>call tool=\"",
                                                   "get\" index=\"1\"<|sep|>",
                                                   "<|open|>argument key=\"s\" type=\"",
                                                   "string\"<|sep|>",
                                                   "number\"<|sep|>",
                                                   "<|close|>argument<|sep|>",
                                                   "<|close|>call<|sep|>",
                                                   "</"};
  Rng rng(5);
  for (const std::string& family : Registry<CallForm>::get().names()) {
    const auto rules = rules_of(family.c_str());
    for (int round = 0; round < fewer_if_sanitized(12'000); ++round) {
      std::string text;
      const int64_t n = rng.between(0, 16);
      for (int64_t i = 0; i < n; ++i)
        text += kPieces[static_cast<size_t>(rng.between(0, static_cast<int64_t>(kPieces.size()) - 1))];
      const AnswerParts whole = parse(rules, text, text.size() + 1);
      const auto cut = static_cast<size_t>(rng.between(1, 9));
      ASSERT_EQ(shown(parse(rules, text, cut)), shown(whole)) << family << ": " << text << " cut at " << cut;
    }
  }
}

// As shown, arguments by their value.
std::string with_values(const AnswerParts& parts) {
  std::string out;
  for (const AnswerPart& p : parts) {
    const auto value = p.kind == PartKind::arguments ? Json::parse(p.text) : Result<Json>(Json(p.text));
    out += p.kind == PartKind::call ? "call: " + p.text : "arguments: " + (value ? value->dump() : p.text);
    out += '\n';
  }
  return out;
}

// Rendered calls of random arguments come back byte for byte, or, where they are not written as JSON, as the same
// values.
TEST(CallParser, ReadsWhatEveryFamilyWrites) {
  static constexpr const char* kValues[] = {"1",          "\"x\"",      "\"</tool_call>\"", "{\"n\":{\"m\":2}}",
                                            "[1, \"]\"]", "\"\\\"}{\"", "\"[TOOL_CALLS]\"", "\"\\u00e9é\\\\\"",
                                            "-1.5e3",     "null"};
  Rng rng(7);
  for (const std::string& family : Registry<CallForm>::get().names()) {
    const CallForm& form = *find_call_form(family);
    const bool by_value = form.marked() || form.keywords || form.quoted() || form.tagged();
    for (int round = 0; round < fewer_if_sanitized(2'000); ++round) {
      std::string text = parser_begin(form), wanted;
      const int64_t n_calls = rng.between(1, 3);
      for (int64_t i = 0; i < n_calls; ++i) {
        std::string arguments = "{";
        const int64_t n = rng.between(0, 4);
        for (int64_t k = 0; k < n; ++k)
          arguments +=
              (k > 0 ? ", \"k" : "\"k") + std::to_string(k) + "\": " + kValues[static_cast<size_t>(rng.between(0, 9))];
        arguments += "}";
        const std::string name = rng.between(0, 1) == 0 ? "get" : "get_weather";
        text += (i > 0 ? std::string(form.between) : "") + call_as_written(form, name, arguments);
        wanted += "call: " + name + "\narguments: " + (by_value ? Json::parse(arguments)->dump() : arguments) + "\n";
      }
      text += form.tail;
      const auto cut = static_cast<size_t>(rng.between(1, 20));
      const AnswerParts parts = parse(rules_of(family.c_str()), text, cut);
      ASSERT_EQ(by_value ? with_values(parts) : shown(parts), wanted) << family << ": " << text;
    }
  }
}

TEST(CallParser, AMarkRightBehindACallIsOne) {
  expect_parts("hermes", "<tool_call>{\"name\":\"get\"}<tool_call>{\"name\":\"search\"}</tool_call>",
               "call: get\narguments: {}\ncall: search\narguments: {}\n");
}

TEST(CallParser, WhatStandsBetweenCallsIsNoTextWhereTheAnswerEnds) {
  expect_parts("pythonic", "[get(a=1), ", "call: get\narguments: {\"a\": 1}\n");
  expect_parts("llama3_json", R"({"name": "get", "parameters": {}}; )", "call: get\narguments: {}\n");
  expect_parts("pythonic", "[get(a=1), x", "call: get\narguments: {\"a\": 1}\ntext: , x\n");
}

}  // namespace
}  // namespace quire
