// Calls whose arguments are neither JSON nor between marks each (Gemma 4): read as JSON however the text is cut, and
// held to their schema.
#include <gtest/gtest.h>

#include "text/grammar/grammar_testing.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

AnswerParts parse(std::string_view text, size_t cut) {
  return read_in_pieces(CallParser(std::make_shared<const CallRules>(
                            CallRules{find_call_form("gemma4"), {"get_weather", "get", "search"}, false})),
                        text, cut);
}

void expect_parts(std::string_view text, const std::string& wanted) {
  for (size_t cut = 1; cut <= text.size() + 1; ++cut)
    EXPECT_EQ(shown(parse(text, cut)), wanted) << text << " cut at " << cut;
}

TEST(QuotedCalls, ArgumentsComeAsJson) {
  expect_parts("Hm.<|tool_call>call:get{s:<|\"|>02134<|\"|>,i:7}<tool_call|><|tool_call>call:search{}<tool_call|>",
               "text: Hm.\ncall: get\narguments: {\"s\": \"02134\", \"i\": 7}\ncall: search\narguments: {}\n");
  const std::pair<const char*, const char*> values[] = {
      {"true", "true"},
      {"None", "null"},
      {"-1.5e3", "-1.5e3"},
      {"[]", "[]"},
      {"[1,[true],{}]", "[1, [true], {}]"},
      {"{a b:<|\"|>x<|\"|>,c:{d:null}}", "{\"a b\": \"x\", \"c\": {\"d\": null}}"},
      {"<|\"|>a\"b\\n\nc}],:é<|\"<|\"|>", "\"a\\\"b\\\\n\\u000ac}],:é<|\\\"\""},
      {"<|\"|><tool_call|><<|\"|>", "\"<tool_call|><\""}};
  for (const auto& [written, json] : values)
    expect_parts("<|tool_call>call:get{ k:0, größe: " + std::string(written) + " }<tool_call|>",
                 "call: get\narguments: {\"k\": 0, \"größe\": " + std::string(json) + "}\n");
  expect_parts("<|tool_call>call:get{a:1,a:[2,<|\"|>x<|\"|>],b:3}<tool_call|>",
               "call: get\narguments: {\"a\": 1, \"b\": 3}\n");
  for (const char* text : {"<|tool_call>", "<|tool_call>call:get", "<|tool_call>call:gat{a:1}<tool_call|>",
                           "<|tool_call>get{a:1}<tool_call|>"})
    expect_parts(text, "text: " + std::string(text) + "\n");
  for (const char* inside : {"a", "a:", "a:1,", "a:1,}", "{", ":1}", "a:x}", "a:\"x\"}", "\"a\":1}", "a:1 b:2}",
                             "a:[1}", "a:[,]}", "a:{1}}", "a:<|x|>1}", "a:007}"}) {
    const AnswerParts parts = parse("<|tool_call>call:get{" + std::string(inside), 1);
    ASSERT_TRUE(parts.has(PartKind::call)) << inside;
    EXPECT_FALSE(Json::parse(parts.joined(PartKind::arguments))) << inside << ": " << shown(parts);
  }
  const auto nested = [](int depth) {
    const auto n = static_cast<size_t>(depth);
    return "<|tool_call>call:get{a:" + std::string(n, '[') + std::string(n, ']') + "}<tool_call|>";
  };
  const auto arguments = [](const AnswerParts& parts) { return Json::parse(parts.joined(PartKind::arguments)); };
  EXPECT_TRUE(arguments(parse(nested(kMaxJsonDepth - 1), 7)));
  EXPECT_FALSE(arguments(parse(nested(kMaxJsonDepth), 7)));
}

TEST(QuotedCalls, ArgumentsObeyTheirSchema) {
  const CallForm& form = *find_call_form("gemma4");
  const Json schema = *Json::parse(R"({"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z]+[0-9]$"},
      "list":{"type":"array","items":{"$ref":"#/$defs/pair"},"minItems":1,"maxItems":2},"n":{"type":"integer","maximum":5},
      "e":{"enum":["<b>",{"x y":[null,"z"]}]}},"required":["id"],"additionalProperties":false,
      "$defs":{"pair":{"type":"object","properties":{"k":{"type":"string","maxLength":3}},"required":["k"],
      "additionalProperties":{"type":"boolean"}}}})");
  const auto arguments = obeying_arguments(form, schema);
  ASSERT_TRUE(arguments);
  const std::vector<CallableTool> one{{"get", *arguments}};
  for (const bool is_token : {false, true}) {
    std::vector<GrammarComposer::Control> controls;
    if (is_token) controls.emplace_back(std::string(form.string_mark), kByteControl);
    const auto made = compile_structural_tag(call_tag(form, one, {.required = true}), controls, {});
    ASSERT_TRUE(made) << made.error().message;
    const auto takes_marked = [&](std::string_view inside) {  // ~ stands for a mark
      Matcher m(*made, byte_vocabulary());
      bool ok = m.accept_text("<|tool_call>call:get{").has_value();
      for (const char c : inside)
        ok = ok && (c != '~'   ? m.accept(static_cast<unsigned char>(c))
                    : is_token ? m.accept(kByteControl)
                               : m.accept_text(form.string_mark))
                       .has_value();
      return ok && m.accept_text("}<tool_call|>").has_value() && m.may_end();
    };
    for (const char* inside : {"id:~ab3~", "id:~a1~,list:[{k:~\"\n\\~,other one:true}]",
                               "id:~a1~,list:[{k:~~},{k:~é<|~}],n:-7", "id:~a1~,e:~<b>~", "id:~a1~,e:{x y:[null,~z~]}"})
      EXPECT_TRUE(takes_marked(inside)) << inside << is_token;
    for (const char* inside : {"", "id:~3~", "id:\"a1\"", "id: ~a1~", "id:~a1~,", "id:~a1~,list:[]", "id:~a1~,n:6",
                               "n:1", "id:~a1~,list:[{k:~abcd~}]", "id:~a1~,list:[{k:~a~,o:1}]", "id:~a1~,x:1",
                               "id:~a1~,e:{x y:[null,z]}", "~id~:~a1~"})
      EXPECT_FALSE(takes_marked(inside)) << inside << is_token;
    if (!is_token) continue;
    Matcher m(*made, byte_vocabulary());  // the mark's text is neither the mark nor inside a string
    EXPECT_TRUE(m.accept_text("<|tool_call>call:get{id:"));
    EXPECT_FALSE(m.accept_text("<"));
  }
  const auto refused = obeying_arguments(form, *Json::parse(R"({"type":"object","properties":{"a:b":{}}})"));
  ASSERT_TRUE(refused);
  const std::vector<CallableTool> bad{{"get", *refused}};
  const auto none = compile_structural_tag(call_tag(form, bad, {}), {}, {});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("\"a:b\" is no name that this model's calls can hold"), std::string::npos)
      << none.error().message;
}

}  // namespace
}  // namespace quire
