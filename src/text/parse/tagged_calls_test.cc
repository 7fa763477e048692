// What may be written of calls whose arguments are elements in tags (MiniMax M3), and what cannot be held.
#include "text/grammar/grammar_testing.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

const CallForm& form() { return *find_call_form("minimax_m3"); }

std::string call(const std::string& arguments) {
  return std::string(form().lead) + call_as_written(form(), "get", arguments) + std::string(form().tail);
}

std::shared_ptr<const Grammar> grammar_of(const Json& arguments) {
  const CallableTool tools[] = {{"get", arguments}};
  auto made = compile_structural_tag(call_tag(form(), tools, {.required = true}), {}, {});
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return made ? *made : nullptr;
}

std::string error_of(const char* schema) {
  const auto made = obeying_arguments(form(), *Json::parse(schema));
  return made ? "taken" : made.error().message;
}

TEST(TaggedCalls, ObeyTheirSchema) {
  const Json schema = *Json::parse(R"({"type":"object","properties":{"id":{"type":"integer","maximum":9},
      "tags":{"type":"array","items":{"$ref":"#/$defs/tag"},"minItems":1,"maxItems":2},
      "o":{"type":"object","properties":{"k":{"enum":["a",1]},"b":{"type":"boolean"}},"required":["b"]},
      "m":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["id"],
      "$defs":{"tag":{"type":"string","maxLength":3}}})");
  const auto arguments = obeying_arguments(form(), schema);
  ASSERT_TRUE(arguments) << arguments.error().message;
  const auto g = grammar_of(*arguments);
  for (const char* yes :
       {R"({"id":7})", R"({"id":7,"tags":["a"]})", R"({"id":7,"tags":["abc","<b>"]})", R"({"id":7,"o":{"b":true}})",
        R"({"id":7,"o":{"k":1,"b":false},"m":"x"})", R"({"id":7,"m":null})"})
    EXPECT_TRUE(takes(g, call(yes))) << yes;
  for (const char* no :
       {R"({})", R"({"id":10})", R"({"id":7,"tags":["abcd"]})", R"({"id":7,"tags":["a","b","c"]})",
        R"({"id":7,"o":{"k":1}})", R"({"id":7,"o":{"k":2,"b":true}})", R"({"tags":["a"],"id":7})", R"({"id":7,"x":1})"})
    EXPECT_FALSE(takes(g, call(no))) << no;
}

TEST(TaggedCalls, WhatCannotBeHeldIsRefused) {
  EXPECT_NE(error_of(R"({"properties":{"a":{"type":"string","pattern":"x"}}})").find("#/properties/a: \"pattern\""),
            std::string::npos);
  EXPECT_NE(error_of(R"({"properties":{"a":{"type":["array","string"]}}})").find("#/properties/a: \"type\""),
            std::string::npos);
  EXPECT_NE(error_of(R"({"properties":{"a":{"type":"array","maxItems":40}}})").find("\"maxItems\""), std::string::npos);
  EXPECT_NE(error_of(R"({"properties":{"a<b":{}}})").find("no name that this model's tags"), std::string::npos);
  EXPECT_NE(error_of(R"({"properties":{"a":{"const":[1]}}})").find("\"const\""), std::string::npos);
  for (const char* family : {"minimax_m3", "glm"}) {
    for (const char* length : {"-1", "1e30", "1.5", "1000000001", "\"1\""}) {
      for (const std::string key : {"minLength", "maxLength"}) {
        const Json schema = *Json::parse(R"({"properties":{"a":{"type":"string",")" + key + "\":" + length + "}}}");
        const auto made = obeying_arguments(*find_call_form(family), schema);
        ASSERT_FALSE(made) << family << ": " << schema.dump();
        EXPECT_NE(made.error().message.find("#/properties/a: \"" + key), std::string::npos) << made.error().message;
      }
    }
  }
  EXPECT_NE(error_of(R"({"minProperties":1})").find("#: \"minProperties\""), std::string::npos);
  EXPECT_NE(error_of(R"({"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":
      {"n":{"$ref":"#/$defs/n"}}}}})")
                .find("nested deeper than 8"),
            std::string::npos);
  EXPECT_NE(
      error_of(R"({"properties":{"a":{"type":"array","minItems":3,"maxItems":2}}})").find("#/properties/a: \"maxI"),
      std::string::npos);
}

// A schema of a few hundred bytes may stand for millions of elements.
TEST(TaggedCalls, WhatIsWrittenOutIsBounded) {
  const std::string limit = "more than 100000 parts";
  const auto lists = [](int n_levels) {
    std::string inner = R"({"type":"string"})";
    for (int i = 0; i < n_levels; ++i) inner = R"({"type":"array","minItems":16,"maxItems":16,"items":)" + inner + "}";
    return R"({"properties":{"a":)" + inner + "}}";
  };
  EXPECT_EQ(error_of(lists(2).c_str()), "taken");
  EXPECT_NE(error_of(lists(5).c_str()).find(limit), std::string::npos);
  const auto references = [](int n_levels) {
    std::string definitions;
    for (int i = 0; i < n_levels; ++i) {
      definitions += "\"d" + std::to_string(i) + R"(":{"type":"object","properties":{)";
      for (int k = 0; k < 10; ++k)
        definitions +=
            (k > 0 ? ",\"" : "\"") + std::to_string(k) + R"(":{"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}";
      definitions += "}},";
    }
    return R"({"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{)" + definitions + "\"d" + std::to_string(n_levels) +
           R"(":{"type":"integer"}}})";
  };
  EXPECT_EQ(error_of(references(3).c_str()), "taken");
  EXPECT_NE(grammar_of(*obeying_arguments(form(), *Json::parse(references(3)))), nullptr);
  EXPECT_NE(error_of(references(6).c_str()).find(limit), std::string::npos);
  EXPECT_NE(error_of((R"({"properties":{"a":{"type":"array","maxItems":16,"items":{"const":")" +
                      std::string(1 << 20, 'x') + "\"}}}}")
                         .c_str())
                .find(limit),
            std::string::npos);
}

// Tools of one request share what may be written out.
TEST(TaggedCalls, ToolsShareWhatIsWrittenOut) {
  const Json schema = *Json::parse(R"({"properties":{"a":{"type":"array","maxItems":16,"items":{"type":"string"}}}})");
  size_t n_left = 2000;
  int n = 0;
  while (obeying_arguments(form(), schema, n_left)) ASSERT_LT(++n, 100);
  EXPECT_GT(n, 0);
  EXPECT_LT(n_left, 2000U);
}

}  // namespace
}  // namespace quire
